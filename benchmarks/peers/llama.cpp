#include "peers/llama.hpp"

#if defined(DFLASH_PEER_LLAMA)

#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include <llama.h>

#include <dflash/numerics/convert.hpp>

#include "peers/gguf.hpp"

namespace dflash::bench {

namespace {

void say_errors_only(ggml_log_level level, const char* text, void*) {
    if (level == GGML_LOG_LEVEL_ERROR) {
        std::fputs(text, stderr);
    }
}

/// The bytes of a saved sequence, so that a cache can be filled without a forward. The layout is that of this release
/// of llama.cpp; it refuses what does not fit.
class saved_sequence {
public:
    saved_sequence(const target_shape& shape, index context, const cached_rows& rows, std::uint32_t magic,
                   bool transposed_values) {
        number(magic);
        number(std::int32_t{0});   // sequence
        number(std::uint32_t{1});  // streams
        number(static_cast<std::uint32_t>(context));
        for (index p = 0; p < context; ++p) {
            number(static_cast<std::int32_t>(p));
            number(std::uint32_t{1});  // sequences of the cell
            number(std::int32_t{0});
        }
        number(std::uint32_t{transposed_values ? 1U : 0U});
        number(static_cast<std::uint32_t>(shape.layers));
        for (index l = 0; l < shape.layers; ++l) {
            head(shape);
            for (index p = 0; p < context; ++p) {
                row(rows.key(l, p));
            }
        }
        for (index l = 0; l < shape.layers; ++l) {
            if (transposed_values) {
                columns(shape, context, l, rows);
                continue;
            }
            head(shape);
            for (index p = 0; p < context; ++p) {
                row(rows.value(l, p));
            }
        }
    }

    [[nodiscard]] const std::string& bytes() const { return bytes_; }

private:
    template <class T>
    void number(T value) {
        bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    void head(const target_shape& shape) {
        number(static_cast<std::int32_t>(GGML_TYPE_F16));
        number(static_cast<std::uint64_t>(shape.kv_heads * shape.head_dim * 2));
    }
    void columns(const target_shape& shape, index context, index layer, const cached_rows& rows) {
        const index width = shape.kv_heads * shape.head_dim;
        number(static_cast<std::int32_t>(GGML_TYPE_F16));
        number(std::uint32_t{2});  // bytes of an element
        number(static_cast<std::uint32_t>(width));
        for (index i = 0; i < width; ++i) {
            for (index p = 0; p < context; ++p) {
                number(numerics::to_f16(rows.value(layer, p)[static_cast<std::size_t>(i)]).bits);
            }
        }
    }
    void row(std::span<const float> values) {
        for (const float value : values) {
            number(numerics::to_f16(value).bits);
        }
    }

    std::string bytes_;
};

class llama_engine final : public step_engine {
public:
    llama_engine(const work& w, int threads, bool fused) : shape_(w.target), threads_(threads), fused_(fused) {
        static const bool started = [] {
            llama_log_set(say_errors_only, nullptr);
            llama_backend_init();
            return true;
        }();
        static_cast<void>(started);
        llama_model_params params = llama_model_default_params();
        params.load_mode = LLAMA_LOAD_MODE_NONE;                          // into memory of its own, as ours
        static std::map<std::string, std::weak_ptr<llama_model>> loaded;  // both ways share the weights
        const std::string path = gguf_of(w).path.string();
        model_ = loaded[path].lock();
        if (model_ == nullptr) {
            model_.reset(llama_model_load_from_file(path.c_str(), params), closer());
            loaded[path] = model_;
        }
        if (model_ == nullptr) {
            raise<backend_error>("llama.cpp: cannot load ", path);
        }
    }

    void open(index context, index room, const cached_rows& rows) override {
        context_.reset();
        llama_context_params params = llama_context_default_params();
        params.n_ctx = static_cast<std::uint32_t>(context + room);
        params.n_batch = 512;
        params.n_ubatch = 512;
        params.n_threads = threads_;
        params.n_threads_batch = threads_;
        params.no_perf = true;
        params.flash_attn_type = fused_ ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
        context_.reset(llama_init_from_model(model_.get(), params));
        if (context_ == nullptr) {
            raise<backend_error>("llama.cpp: no context of ", context + room, " positions");
        }
        length_ = 0;
        if (context > 0) {
            fill(context, rows);
        }
    }

    void forward(std::span<const token_id> tokens, index logit_rows) override {
        const auto n = static_cast<std::int32_t>(tokens.size());
        logit_rows_ = logit_rows;
        token_.assign(tokens.begin(), tokens.end());
        position_.clear();
        wanted_.clear();
        sequences_.assign(tokens.size(), &sequence_);
        counts_.assign(tokens.size(), 1);
        for (std::int32_t i = 0; i < n; ++i) {
            position_.push_back(static_cast<llama_pos>(length_ + i));
            wanted_.push_back(i >= n - static_cast<std::int32_t>(logit_rows) ? 1 : 0);
        }
        const llama_batch batch = {
            n, token_.data(), nullptr, position_.data(), counts_.data(), sequences_.data(), wanted_.data()};
        if (llama_decode(context_.get(), batch) != 0) {
            raise<backend_error>("llama.cpp: llama_decode failed");
        }
        llama_synchronize(context_.get());
        length_ += n;
    }

    void crop(index n) override {
        llama_memory_seq_rm(llama_get_memory(context_.get()), 0, static_cast<llama_pos>(n), -1);
        length_ = n;
    }

    std::span<const float> logits() override {
        return {llama_get_logits(context_.get()), static_cast<std::size_t>(logit_rows_ * shape_.vocab_size)};
    }

private:
    void fill(index context, const cached_rows& rows) {
        // One position by a forward: its saved form tells the magic number.
        const token_id token = 0;
        forward({&token, 1}, 1);
        std::vector<std::uint8_t> first(llama_state_seq_get_size(context_.get(), 0));
        llama_state_seq_get_data(context_.get(), first.data(), first.size(), 0);
        std::uint32_t magic = 0;
        std::memcpy(&magic, first.data(), sizeof magic);
        const saved_sequence saved(shape_, context, rows, magic, !fused_);
        const auto* bytes = reinterpret_cast<const std::uint8_t*>(saved.bytes().data());
        if (llama_state_seq_set_data(context_.get(), bytes, saved.bytes().size(), 0) == 0) {
            raise<backend_error>("llama.cpp: refuses a saved sequence of ", context, " positions");
        }
        length_ = context;
    }

    struct closer {
        void operator()(llama_model* model) const {
            if (model != nullptr) {
                llama_model_free(model);
            }
        }
        void operator()(llama_context* context) const { llama_free(context); }
    };

    target_shape shape_;
    int threads_;
    bool fused_;
    std::shared_ptr<llama_model> model_;
    std::unique_ptr<llama_context, closer> context_;
    index length_ = 0;
    index logit_rows_ = 0;
    llama_seq_id sequence_ = 0;
    std::vector<llama_token> token_;
    std::vector<llama_pos> position_;
    std::vector<std::int32_t> counts_;
    std::vector<llama_seq_id*> sequences_;
    std::vector<std::int8_t> wanted_;
};

}  // namespace

std::vector<step_peer> llama_peers() {
    const auto peer = [](const char* label, bool fused) {
        return step_peer{.label = label,
                         .why_not = {},
                         .kv_bytes = [](dtype) -> index { return 2; },
                         .make = [fused](const work& w, int threads) -> std::unique_ptr<step_engine> {
                             return std::make_unique<llama_engine>(w, threads, fused);
                         }};
    };
    return {peer("llama.cpp, fused", true), peer("llama.cpp, unfused", false)};
}

}  // namespace dflash::bench

#else

namespace dflash::bench {

std::vector<step_peer> llama_peers() {
    return {{.label = "llama.cpp",
             .why_not = "this build has none (benchmarks/peers/get_llama.sh fetches and builds it)",
             .kv_bytes = {},
             .make = {}}};
}

}  // namespace dflash::bench

#endif
