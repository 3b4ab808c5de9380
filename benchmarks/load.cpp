// Loading a checkpoint: how long until a model is ready, against a plain read of its file, and the most memory it took.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include <dflash/cpu/exact.hpp>
#include <dflash/io/load.hpp>
#include <dflash/model/target_transformer.hpp>

#include "support/comparison.hpp"
#include "support/options.hpp"

namespace {

using namespace dflash::bench;
using dflash::index;
using json = nlohmann::ordered_json;
namespace fs = std::filesystem;

struct options : common_options {
    std::string model;
    std::string work = "qwen3-0.6b";
};

options parse(int argc, const char* const* argv) {
    options o;
    o.peers = {"none"};
    o.patience = 30;
    CLI::App app("Measures loading a target: packed weights ready for use, against a plain read of the same file.");
    add_common_options(app, o);
    app.add_option("--model", o.model,
                   "a target's folder with one model.safetensors; none: random weights are written");
    app.add_option("--work", o.work, "shape of the random weights: standard, qwen3-0.6b (both bf16)")
        ->capture_default_str();
    dflash::examples::parse_arguments(app, argc, argv);
    return o;
}

struct named_tensor {
    std::string name;
    dflash::tensor_view tensor;
    bool vector;
};

std::vector<named_tensor> tensors_of(const work& w) {
    const dflash::target_weights& t = w.target_tensors;
    std::vector<named_tensor> all = {{"model.embed_tokens", t.embedding, false}, {"model.norm", t.norm, true}};
    if (!w.target.tied_head) {
        all.push_back({"lm_head", t.head, false});
    }
    for (std::size_t l = 0; l < t.layers.size(); ++l) {
        const dflash::layer_weights& layer = t.layers[l];
        const std::string prefix = "model.layers." + std::to_string(l) + ".";
        for (const auto& [name, tensor, vector] : {named_tensor{"input_layernorm", layer.input_norm, true},
                                                   {"self_attn.q_proj", layer.q, false},
                                                   {"self_attn.k_proj", layer.k, false},
                                                   {"self_attn.v_proj", layer.v, false},
                                                   {"self_attn.o_proj", layer.o, false},
                                                   {"self_attn.q_norm", layer.q_norm, true},
                                                   {"self_attn.k_norm", layer.k_norm, true},
                                                   {"post_attention_layernorm", layer.post_norm, true},
                                                   {"mlp.gate_proj", layer.gate, false},
                                                   {"mlp.up_proj", layer.up, false},
                                                   {"mlp.down_proj", layer.down, false}}) {
            all.push_back({prefix + name, tensor, vector});
        }
    }
    return all;
}

void write_checkpoint(const work& w, const fs::path& folder) {
    fs::create_directories(folder);
    const dflash::target_shape& t = w.target;
    const json config = {{"architectures", {"Qwen3ForCausalLM"}},
                         {"model_type", "qwen3"},
                         {"hidden_act", "silu"},
                         {"hidden_size", t.hidden_size},
                         {"num_hidden_layers", t.layers},
                         {"num_attention_heads", t.heads},
                         {"num_key_value_heads", t.kv_heads},
                         {"head_dim", t.head_dim},
                         {"intermediate_size", t.intermediate_size},
                         {"vocab_size", t.vocab_size},
                         {"max_position_embeddings", t.max_positions},
                         {"rms_norm_eps", 1e-6},
                         {"rope_theta", 1e6},
                         {"attention_bias", false},
                         {"tie_word_embeddings", t.tied_head}};
    write_json((folder / "config.json").string(), config);
    json header;
    index begin = 0;
    const std::vector<named_tensor> all = tensors_of(w);
    const auto bytes_of = [](const dflash::tensor_view& v) { return v.rows * v.cols * dflash::size_of(v.type); };
    for (const named_tensor& n : all) {
        const index end = begin + bytes_of(n.tensor);
        const std::vector<index> shape = n.vector ? std::vector<index>{n.tensor.rows * n.tensor.cols}
                                                  : std::vector<index>{n.tensor.rows, n.tensor.cols};
        header[n.name + ".weight"] = {{"dtype", n.tensor.type == dflash::dtype::f32 ? "F32" : "BF16"},
                                      {"shape", shape},
                                      {"data_offsets", {begin, end}}};
        begin = end;
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const std::uint64_t length = text.size();
    std::ofstream file(folder / "model.safetensors", std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file << text;
    for (const named_tensor& n : all) {
        file.write(reinterpret_cast<const char*>(n.tensor.data), bytes_of(n.tensor));
    }
    file.close();
    if (!file) {
        dflash::raise<dflash::io_error>((folder / "model.safetensors").string(), ": cannot write");
    }
}

/// Reads the file: all of it into new memory, as whoever keeps it must, or through a block that is overwritten.
void read_file(const fs::path& path, bool keep) {
    const auto size = static_cast<std::size_t>(fs::file_size(path));
    const std::size_t block = keep ? size : std::size_t{8} << 20;
    const std::unique_ptr<char[]> memory(new char[block]);
    const dflash::io::detail::file_handle file = dflash::io::detail::open_file(path, "rb");
    std::setvbuf(file.get(), nullptr, _IONBF, 0);
    std::size_t total = 0;
    while (total < size) {
        const std::size_t got = std::fread(memory.get(), 1, block, file.get());
        if (got == 0) {
            break;
        }
        total += got;
    }
    if (total != size) {
        dflash::raise<dflash::io_error>(path.string(), ": read ", total, " bytes of ", size);
    }
}

/// Bytes of a line of /proc/self/status, where there is one.
std::optional<double> memory_line(const std::string& name) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with(name + ":")) {
            return std::stod(line.substr(name.size() + 1)) * 1024;
        }
    }
    return std::nullopt;
}

int run(const options& o) {
    fs::path folder = o.model;
    if (o.model.empty()) {
        folder = fs::path(o.folder) / ("load-" + o.work);
        if (!fs::exists(folder / "config.json")) {
            write_checkpoint(*make_work(o.work, dflash::dtype::bf16), folder);
        }
    }
    const fs::path file = folder / "model.safetensors";
    const auto bytes = static_cast<double>(fs::file_size(file));
    neighbours others(o.patience);
    std::vector<double> passes;
    std::vector<double> reads;
    std::vector<double> loads;
    std::vector<double> peaks;
    read_file(file, false);
    for (int round = 0; round < o.rounds; ++round) {
        others.undisturbed([&] {
            const double pass = seconds_of([&] { read_file(file, false); });
            const double read = seconds_of([&] { read_file(file, true); });
            std::ofstream("/proc/self/clear_refs") << "5";  // the peak counts from here
            const double before = memory_line("VmRSS").value_or(0);
            const double load = seconds_of([&] {
                const dflash::io::target_checkpoint loaded = dflash::io::load_target(folder);
                const dflash::cpu::exact ops({.threads = o.threads});
                const dflash::target_transformer<dflash::cpu::exact> model(loaded.shape, loaded.weights, {}, ops, ops);
            });
            passes.push_back(pass);
            reads.push_back(read);
            loads.push_back(load);
            peaks.push_back(memory_line("VmHWM").value_or(0) - before);
        });
    }
    const double peak = *std::max_element(peaks.begin(), peaks.end());
    std::printf("%s, %.0f MB, %d threads, %d rounds, file in the system's cache\n", folder.string().c_str(),
                bytes * 1e-6, o.threads, o.rounds);
    std::printf("  read into memory %s ms, passed over %s ms\n", milliseconds_text(reads).c_str(),
                milliseconds_text(passes).c_str());
    std::printf("  loaded and packed %s ms: %.2f x the read, %.2f x the pass\n", milliseconds_text(loads).c_str(),
                median(ratios(loads, reads)), median(ratios(loads, passes)));
    if (peak > 0) {
        std::printf("  most memory held %.0f MB, %.3f x the file\n", peak * 1e-6, peak / bytes);
    }
    if (!o.json.empty()) {
        write_json(o.json, {{"program", "bench-load"},
                            {"file_bytes", bytes},
                            {"threads", o.threads},
                            {"pass_seconds", passes},
                            {"read_seconds", reads},
                            {"load_seconds", loads},
                            {"peak_bytes", peak}});
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    return dflash::examples::run_program("bench-load", [&] { return run(parse(argc, argv)); });
}
