// Weights in the layout the kernels read: panels of 16 outputs, (k, 16) floats, or (k/2, 16) words of two 16-bit
// elements, element k in the high half and k + 1 in the low one.
//
// Packing moves bits and rounds nothing: 16-bit weights stay 16-bit, unless parts of different types are stacked, which
// are all widened exactly to f32. For the bf16 tier tiny weights become zero (numerics::bf16_operand); what they were
// is kept beside the panels, because a table that is looked up in is read as stored.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <span>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <dflash/buffer.hpp>
#include <dflash/concepts/ops.hpp>
#include <dflash/cpu/interleave.hpp>
#include <dflash/cpu/parallel.hpp>
#include <dflash/numerics/bf16_tier.hpp>
#include <dflash/numerics/convert.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cpu {

/// Outputs of one panel.
inline constexpr index panel_width = 16;

/// Bytes that are only ever read after they were filled. Large ones ask for 2 MB pages, which is a matter of speed, and
/// come from the system and go back to it as a whole, so that loading and letting go leaves no holes.
class packed_memory {
public:
    packed_memory() = default;

    /// Errors: backend_error when the memory is not there.
    explicit packed_memory(std::size_t bytes) {
        if (bytes == 0) {
            return;
        }
#if defined(__linux__) && defined(MADV_HUGEPAGE)
        if (bytes >= huge_page && bytes < (std::numeric_limits<std::size_t>::max)() - 2 * huge_page) {
            mapped_ = bytes + huge_page;
            void* mapping = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (mapping == MAP_FAILED) {
                mapped_ = 0;
                raise<backend_error>("pack: out of memory for ", bytes, " bytes");
            }
            start_ = mapping;
            const auto address = reinterpret_cast<std::uintptr_t>(mapping);
            data_ = static_cast<std::byte*>(mapping) + (huge_page - address % huge_page) % huge_page;
            static_cast<void>(::madvise(data_, bytes, MADV_HUGEPAGE));
            return;
        }
#endif
        start_ = data_ = ::operator new(bytes, std::align_val_t{alignment}, std::nothrow);
        if (data_ == nullptr) {
            raise<backend_error>("pack: out of memory for ", bytes, " bytes");
        }
    }

    packed_memory(packed_memory&& other) noexcept
        : start_(std::exchange(other.start_, nullptr)),
          data_(std::exchange(other.data_, nullptr)),
          mapped_(std::exchange(other.mapped_, 0)) {}
    packed_memory& operator=(packed_memory&& other) noexcept {
        std::swap(start_, other.start_);
        std::swap(data_, other.data_);
        std::swap(mapped_, other.mapped_);
        return *this;
    }
    packed_memory(const packed_memory&) = delete;
    packed_memory& operator=(const packed_memory&) = delete;
    ~packed_memory() {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
        if (mapped_ != 0) {
            ::munmap(start_, mapped_);
            return;
        }
#endif
        if (start_ != nullptr) {
            ::operator delete(start_, std::align_val_t{alignment});
        }
    }

    [[nodiscard]] void* data() noexcept { return data_; }
    [[nodiscard]] const void* data() const noexcept { return data_; }

private:
    static constexpr std::size_t alignment = 64;
    static constexpr std::size_t huge_page = std::size_t{1} << 21;

    void* start_ = nullptr;
    void* data_ = nullptr;
    std::size_t mapped_ = 0;  // 0: from operator new
};

namespace detail {

/// An element that the panels hold as zero.
struct flushed_element {
    index at;  // row * cols + col
    bf16 stored;
};

}  // namespace detail

/// Matrices stacked along their rows and packed, with an optional bias. Made by exact::pack.
class linear_weights {
public:
    linear_weights() = default;

    /// Outputs.
    [[nodiscard]] index rows() const noexcept { return rows_; }
    /// Inputs.
    [[nodiscard]] index cols() const noexcept { return cols_; }
    /// How the elements are kept.
    [[nodiscard]] dtype type() const noexcept { return type_; }
    /// bf16 for bf16 weights that were packed for inputs rounded to bf16; otherwise f32.
    [[nodiscard]] activation_type activation() const noexcept { return activation_; }
    [[nodiscard]] index panels() const noexcept { return (rows_ + panel_width - 1) / panel_width; }
    [[nodiscard]] const void* data() const noexcept { return memory_.data(); }
    /// Padded to whole panels; null without a bias.
    [[nodiscard]] const float* bias() const noexcept { return bias_.data(); }

    /// Bytes of the packed matrix.
    [[nodiscard]] std::size_t bytes() const noexcept {
        const index words = type_ == dtype::f32 ? cols_ : (cols_ + 1) / 2;
        return static_cast<std::size_t>(panels() * words * panel_width) * sizeof(std::uint32_t);
    }

    /// Element (row, col) as stored, widened.
    [[nodiscard]] float at(index row, index col) const noexcept {
        const index lane = row % panel_width;
        if (type_ == dtype::f32) {
            const auto* panel = static_cast<const float*>(memory_.data()) + row / panel_width * cols_ * panel_width;
            return panel[col * panel_width + lane];
        }
        const index words = (cols_ + 1) / 2;
        const auto* panel = static_cast<const std::uint32_t*>(memory_.data()) + row / panel_width * words * panel_width;
        const std::uint32_t word = panel[col / 2 * panel_width + lane];
        const auto bits = static_cast<std::uint16_t>(col % 2 == 0 ? word >> 16 : word & 0xFFFFU);
        if (type_ == dtype::f16) {
            return numerics::to_float(f16{bits});
        }
        const float value = numerics::to_float(bf16{bits});
        return value == 0.0F && !flushed_.empty() ? before_flush(row * cols_ + col, value) : value;
    }

private:
    friend linear_weights pack_weights(std::span<const tensor_view> parts, std::span<const tensor_view> biases,
                                       int threads, activation_type activation);

    [[nodiscard]] float before_flush(index at, float value) const noexcept {
        const auto found =
            std::lower_bound(flushed_.begin(), flushed_.end(), at,
                             [](const detail::flushed_element& element, index i) { return element.at < i; });
        return found != flushed_.end() && found->at == at ? numerics::to_float(found->stored) : value;
    }

    packed_memory memory_;
    buffer<float> bias_;
    index rows_ = 0;
    index cols_ = 0;
    dtype type_ = dtype::f32;
    activation_type activation_ = activation_type::f32;
    std::vector<detail::flushed_element> flushed_;  // ascending
};

/// A norm's weights, widened to f32. Made by exact::pack_vector.
class vector_weights {
public:
    vector_weights() = default;
    explicit vector_weights(index size) : values_(size) {}

    [[nodiscard]] index size() const noexcept { return values_.size(); }
    [[nodiscard]] const float* data() const noexcept { return values_.data(); }
    [[nodiscard]] float* data() noexcept { return values_.data(); }

private:
    buffer<float> values_;
};

namespace detail {

/// Element i of a stored tensor, whatever its alignment.
inline std::uint16_t stored_half(const tensor_view& t, index i) noexcept {
    std::uint16_t bits = 0;
    std::memcpy(&bits, t.data + i * 2, sizeof(bits));
    return bits;
}

inline float stored_float(const tensor_view& t, index i) noexcept {
    switch (t.type) {
        case dtype::bf16: return numerics::to_float(bf16{stored_half(t, i)});
        case dtype::f16: return numerics::to_float(f16{stored_half(t, i)});
        case dtype::f32: break;
    }
    float value = 0.0F;
    std::memcpy(&value, t.data + i * 4, sizeof(value));
    return value;
}

/// A row of the stacked parts.
struct stacked_row {
    const tensor_view* part;
    index row;
};

inline stacked_row find_row(std::span<const tensor_view> parts, index row) noexcept {
    const tensor_view* part = parts.data();
    while (row >= part->rows) {
        row -= part->rows;
        ++part;
    }
    return {part, row};
}

/// Columns of a panel that are put in order at a time.
inline constexpr index pack_block = 128;

/// A panel from its rows: fill(source row, first column, count, out) gives neighbouring columns of one row, in elements
/// of the panel. Rows behind the last one are zero. Shape: out (cols, 16).
template <class T, class Fill>
void pack_panel(std::span<const tensor_view> parts, index rows, index cols, index panel, T* out, Fill fill) {
    alignas(64) T block[panel_width * pack_block];
    const index first_row = panel * panel_width;
    const index used = (std::min)(panel_width, rows - first_row);
    for (index first = 0; first < cols; first += pack_block) {
        const index count = (std::min)(pack_block, cols - first);
        for (index lane = 0; lane < used; ++lane) {
            fill(find_row(parts, first_row + lane), first, count, block + lane * pack_block);
        }
        interleave(block, pack_block, used, count, out + first * panel_width, panel_width);
    }
}

inline void pack_panel_f32(std::span<const tensor_view> parts, index rows, index cols, index panel, float* out) {
    pack_panel(parts, rows, cols, panel, out, [&](const stacked_row& source, index first, index count, float* row) {
        for (index k = 0; k < count; ++k) {
            row[k] = stored_float(*source.part, source.row * cols + first + k);
        }
    });
}

template <class Operand>
void pack_panel_words(std::span<const tensor_view> parts, index rows, index cols, index panel, std::uint32_t* out,
                      Operand operand) {
    const index words = (cols + 1) / 2;
    pack_panel(parts, rows, words, panel, out,
               [&](const stacked_row& source, index first, index count, std::uint32_t* row) {
                   const index at = source.row * cols + 2 * first;
                   const index pairs = (std::min)(count, cols / 2 - first);
                   for (index w = 0; w < pairs; ++w) {
                       const std::uint32_t high = operand(stored_half(*source.part, at + 2 * w));
                       row[w] = high << 16U | operand(stored_half(*source.part, at + 2 * w + 1));
                   }
                   if (pairs < count) {  // an odd end
                       row[pairs] = std::uint32_t{operand(stored_half(*source.part, at + 2 * pairs))} << 16U;
                   }
               });
}

/// The panel of the bf16 tier. Returns whether an element became zero.
inline bool pack_panel_flushed(std::span<const tensor_view> parts, index rows, index cols, index panel,
                               std::uint32_t* out) {
    bool flushed = false;
    pack_panel_words(parts, rows, cols, panel, out, [&](std::uint16_t stored) {
        const std::uint16_t bits = numerics::bf16_operand(bf16{stored}).bits;
        flushed = flushed || bits != stored;
        return bits;
    });
    return flushed;
}

/// Appends the elements of a panel's rows that become zero, in order.
inline void find_flushed(std::span<const tensor_view> parts, index rows, index cols, index panel,
                         std::vector<flushed_element>& found) {
    const index last = (std::min)(rows, (panel + 1) * panel_width);
    for (index row = panel * panel_width; row < last; ++row) {
        const stacked_row source = find_row(parts, row);
        for (index k = 0; k < cols; ++k) {
            const bf16 stored{stored_half(*source.part, source.row * cols + k)};
            if (numerics::bf16_operand(stored) != stored) {
                found.push_back({row * cols + k, stored});
            }
        }
    }
}

}  // namespace detail

/// Stacks the parts along their rows, and the biases likewise. Errors: config_error for no parts, parts without data or
/// of different widths, and biases that are neither none nor one for each part and as long as it is high.
[[nodiscard]] inline linear_weights pack_weights(std::span<const tensor_view> parts,
                                                 std::span<const tensor_view> biases, int threads,
                                                 activation_type activation = activation_type::f32) {
    if (parts.empty()) {
        raise<config_error>("pack: got 0 parts, needs at least 1");
    }
    linear_weights packed;
    packed.cols_ = parts[0].cols;
    packed.type_ = parts[0].type;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const tensor_view& part = parts[i];
        if (part.empty() || part.rows < 0 || part.cols < 0) {
            raise<config_error>("pack: part ", i, " is absent");
        }
        if (part.cols != packed.cols_) {
            raise<config_error>("pack: part ", i, " has ", part.cols, " columns, needs ", packed.cols_);
        }
        packed.rows_ += part.rows;
        if (part.type != packed.type_) {
            packed.type_ = dtype::f32;  // for good: no later part brings the narrower type back
        }
    }

    packed.activation_ = packed.type_ == dtype::bf16 ? activation : activation_type::f32;

    packed.memory_ = packed_memory(packed.bytes());
    if (packed.type_ == dtype::f32) {
        auto* out = static_cast<float*>(packed.memory_.data());
        parallel_for(threads, packed.panels(), 1, packed.rows_ * packed.cols_, [&](index first, index last, int) {
            for (index panel = first; panel < last; ++panel) {
                detail::pack_panel_f32(parts, packed.rows_, packed.cols_, panel,
                                       out + panel * packed.cols_ * panel_width);
            }
        });
    } else if (packed.activation_ == activation_type::bf16) {
        auto* out = static_cast<std::uint32_t*>(packed.memory_.data());
        buffer<unsigned char> flushed(packed.panels());  // usually none: the elements are looked for afterwards
        parallel_for(threads, packed.panels(), 1, packed.rows_ * packed.cols_, [&](index first, index last, int) {
            for (index panel = first; panel < last; ++panel) {
                flushed[panel] = detail::pack_panel_flushed(parts, packed.rows_, packed.cols_, panel,
                                                            out + panel * ((packed.cols_ + 1) / 2) * panel_width)
                                     ? 1
                                     : 0;
            }
        });
        for (index panel = 0; panel < packed.panels(); ++panel) {
            if (flushed[panel] != 0) {
                detail::find_flushed(parts, packed.rows_, packed.cols_, panel, packed.flushed_);
            }
        }
    } else {
        auto* out = static_cast<std::uint32_t*>(packed.memory_.data());
        parallel_for(threads, packed.panels(), 1, packed.rows_ * packed.cols_, [&](index first, index last, int) {
            for (index panel = first; panel < last; ++panel) {
                detail::pack_panel_words(parts, packed.rows_, packed.cols_, panel,
                                         out + panel * ((packed.cols_ + 1) / 2) * panel_width,
                                         [](std::uint16_t bits) { return bits; });
            }
        });
    }

    if (!biases.empty()) {
        if (biases.size() != parts.size()) {
            raise<config_error>("pack: got ", biases.size(), " biases, needs none or ", parts.size());
        }
        packed.bias_ = buffer<float>(packed.panels() * panel_width);
        index row = 0;
        for (std::size_t i = 0; i < biases.size(); ++i) {
            const tensor_view& bias = biases[i];
            if (bias.empty() || bias.rows * bias.cols != parts[i].rows) {
                raise<config_error>("pack: bias ", i, " has ", bias.empty() ? index{0} : bias.rows * bias.cols,
                                    " elements, needs ", parts[i].rows);
            }
            for (index o = 0; o < parts[i].rows; ++o) {
                packed.bias_.data()[row + o] = detail::stored_float(bias, o);
            }
            row += parts[i].rows;
        }
    }
    return packed;
}

}  // namespace cpu

DFLASH_END_NAMESPACE
