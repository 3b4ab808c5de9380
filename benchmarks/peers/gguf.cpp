#include "peers/gguf.hpp"

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "peers/peers.hpp"

namespace dflash::bench {

namespace {

constexpr index alignment = 32;

index aligned(index n) {
    return (n + alignment - 1) / alignment * alignment;
}

/// The part before the tensors' data: magic, metadata, and where each tensor is.
class header {
public:
    template <class T>
    void number(T value) {
        bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    void text(const std::string& value) {
        number(static_cast<std::uint64_t>(value.size()));
        bytes_ += value;
    }
    void entry(const std::string& key, index value) {
        text(key);
        number(std::uint32_t{4});  // u32
        number(static_cast<std::uint32_t>(value));
    }
    void entry(const std::string& key, float value) {
        text(key);
        number(std::uint32_t{6});  // f32
        number(value);
    }
    void entry(const std::string& key, const std::string& value) {
        text(key);
        number(std::uint32_t{8});  // string
        text(value);
    }
    void pad() { bytes_.resize(static_cast<std::size_t>(aligned(static_cast<index>(bytes_.size())))); }

    [[nodiscard]] const std::string& bytes() const { return bytes_; }

private:
    std::string bytes_;
};

void write_metadata(header& out, const work& w) {
    const target_shape& t = w.target;
    out.entry("general.architecture", std::string("qwen3"));
    out.entry("general.name", w.name);
    out.entry("qwen3.block_count", t.layers);
    out.entry("qwen3.context_length", t.max_positions);
    out.entry("qwen3.embedding_length", t.hidden_size);
    out.entry("qwen3.feed_forward_length", t.intermediate_size);
    out.entry("qwen3.attention.head_count", t.heads);
    out.entry("qwen3.attention.head_count_kv", t.kv_heads);
    out.entry("qwen3.attention.key_length", t.head_dim);
    out.entry("qwen3.attention.value_length", t.head_dim);
    out.entry("qwen3.attention.layer_norm_rms_epsilon", t.rms_norm_eps);
    out.entry("qwen3.rope.freq_base", static_cast<float>(t.rope.theta));
    out.entry("qwen3.vocab_size", t.vocab_size);
    out.entry("tokenizer.ggml.model", std::string("none"));
}
constexpr std::uint64_t metadata_entries = 14;

struct placed_tensor {
    std::string name;
    tensor_view view;
    bool vector;
    index bytes;
    index offset;
};

}  // namespace

tensor_offsets write_gguf(const std::filesystem::path& path, const work& w) {
    std::vector<placed_tensor> tensors;
    index offset = 0;
    visit_target_tensors(w, [&](const std::string& name, const tensor_view& view) {
        const bool vector = view.rows == 1;
        const index bytes = view.rows * view.cols * (vector ? 4 : size_of(view.type));
        tensors.push_back({name, view, vector, bytes, offset});
        offset += aligned(bytes);
    });
    header head;
    head.number(std::uint32_t{0x46554747});  // "GGUF"
    head.number(std::uint32_t{3});
    head.number(static_cast<std::uint64_t>(tensors.size()));
    head.number(metadata_entries);
    write_metadata(head, w);
    for (const placed_tensor& t : tensors) {
        head.text(t.name);
        head.number(std::uint32_t{t.vector ? 1U : 2U});
        head.number(static_cast<std::uint64_t>(t.view.cols));
        if (!t.vector) {
            head.number(static_cast<std::uint64_t>(t.view.rows));
        }
        head.number(std::uint32_t{t.vector || t.view.type == dtype::f32 ? 0U : 30U});  // F32, BF16
        head.number(static_cast<std::uint64_t>(t.offset));
    }
    head.pad();

    tensor_offsets offsets;
    const auto data = static_cast<index>(head.bytes().size());
    for (const placed_tensor& t : tensors) {
        offsets[t.name] = data + t.offset;
    }
    std::error_code absent;
    if (std::filesystem::file_size(path, absent) == static_cast<std::uintmax_t>(data + offset) && !absent) {
        return offsets;
    }
    std::ofstream file(path, std::ios::binary);
    file.write(head.bytes().data(), static_cast<std::streamsize>(head.bytes().size()));
    constexpr char zeros[alignment] = {};
    for (const placed_tensor& t : tensors) {
        if (t.vector) {
            for (index i = 0; i < t.view.cols; ++i) {
                const float value = t.view.element(0, i);
                file.write(reinterpret_cast<const char*>(&value), 4);
            }
        } else {
            file.write(reinterpret_cast<const char*>(t.view.data), t.bytes);
        }
        file.write(zeros, aligned(t.bytes) - t.bytes);
    }
    file.close();
    if (!file) {
        raise<io_error>(path.string(), ": cannot be written");
    }
    return offsets;
}

model_file gguf_of(const work& w) {
    std::filesystem::create_directories(peer_folder());
    model_file out;
    out.path = std::filesystem::path(peer_folder()) / (w.name + (w.type == dtype::f32 ? "-f32.gguf" : "-bf16.gguf"));
    out.offsets = write_gguf(out.path, w);
    return out;
}

}  // namespace dflash::bench
