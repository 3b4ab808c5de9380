// One matrix product, against peers and against what the machine can do: the speed of its memory at one row, of its
// multipliers at many.
#include <cstdio>

#include <dflash/cpu/exact.hpp>
#include <dflash/numerics/convert.hpp>

#include "peers/products.hpp"
#include "support/comparison.hpp"
#include "support/options.hpp"

namespace {

using namespace dflash::bench;
using dflash::dtype;
using index = dflash::index;

constexpr index k = 2048;
constexpr index n = 6144;

struct options : common_options {
    std::vector<std::string> types = {"f32", "bf16"};
    std::vector<index> rows = {1, 2, 4, 8, 16};
    int matrices = 6;
};

options parse(int argc, const char* const* argv) {
    options o;
    o.rounds = 15;
    o.peers = {"eigen", "openblas", "onednn"};
    CLI::App app("Measures one matrix product, 2048 to 6144, with weights from memory.");
    add_common_options(app, o);
    app.add_option("--types", o.types, "f32, bf16")->delimiter(',')->capture_default_str();
    app.add_option("--rows", o.rows, "rows of a product")
        ->transform(dflash::examples::whole_number(1, 512))
        ->delimiter(',')
        ->capture_default_str();
    app.add_option("--matrices", o.matrices, "matrices that take turns, so that weights come from memory")
        ->capture_default_str()
        ->transform(dflash::examples::whole_number(1, 1000));
    dflash::examples::parse_arguments(app, argc, argv);
    return o;
}

/// The library's own product. Another way to run it is one more option here and one more line in `contenders`.
class our_products final : public product_engine {
public:
    our_products(const product_task& task, dflash::cpu::exact_options options)
        : ops_((options.threads = task.threads, options)), task_(task) {
        const dflash::tensor_view stored = {dtype::f32, reinterpret_cast<const std::byte*>(task.weights.data()), task.n,
                                            task.k};
        std::vector<std::uint16_t> halves;
        dflash::tensor_view part = stored;
        if (task.type == dtype::bf16) {
            for (const float w : task.weights) {
                halves.push_back(dflash::numerics::to_bf16(w).bits);
            }
            part = {dtype::bf16, reinterpret_cast<const std::byte*>(halves.data()), task.n, task.k};
        }
        for (int i = 0; i < task.matrices; ++i) {
            packed_.push_back(ops_.pack({&part, 1}));
        }
    }

    void prepare(std::span<const float> x, index rows) override {
        x_.assign(x.begin(), x.begin() + rows * task_.k);
        y_.assign(static_cast<std::size_t>(rows * task_.n), 0.0F);
        rows_ = rows;
    }
    void run(int matrix) override {
        ops_.linear({x_.data(), rows_, task_.k}, packed_[static_cast<std::size_t>(matrix)],
                    {y_.data(), rows_, task_.n});
    }
    std::vector<float> result() override { return y_; }

private:
    dflash::cpu::exact ops_;
    product_task task_;
    std::vector<dflash::cpu::linear_weights> packed_;
    index rows_ = 0;
    std::vector<float> x_;
    std::vector<float> y_;
};

struct product_contender {
    std::string name;
    bool bf16_dots;
    std::unique_ptr<product_engine> engine;
};

std::vector<product_contender> contenders(const product_task& task, const std::vector<std::string>& peers,
                                          nlohmann::ordered_json& missing) {
    std::vector<product_contender> out;
    out.push_back({"dflash", false, std::make_unique<our_products>(task, dflash::cpu::exact_options{})});
    if (task.type == dtype::bf16) {
        const dflash::cpu::exact_options tier{.activation = dflash::activation_type::bf16};
        out.push_back({"dflash bf16 tier", true, std::make_unique<our_products>(task, tier)});
    }
    const auto add = [&](const std::string& name, bool bf16_dots, std::unique_ptr<product_engine> engine) {
        if (engine != nullptr) {
            out.push_back({name, bf16_dots, std::move(engine)});
        } else if (task.type == dtype::f32) {
            missing.push_back(name + ": skipped, this build has none");
        }
    };
    for (const std::string& name : peers) {
        if (name == "eigen") {
            add("eigen, row-major", false, make_eigen_products(task, true));
            add("eigen, col-major", false, make_eigen_products(task, false));
        } else if (name == "openblas") {
            add(name, false, make_openblas_products(task));
        } else if (name == "onednn") {
            add(name, task.type == dtype::bf16, make_onednn_products(task));
        } else {
            dflash::raise<dflash::config_error>("--peers: got \"", name, "\", needs eigen, openblas, onednn or none");
        }
    }
    return out;
}

/// The same product up to rounding; bf16 products of peers round x, too.
void check_agreement(std::vector<product_contender>& all) {
    all.front().engine->run(0);
    const std::vector<float> ours = all.front().engine->result();
    for (const product_contender& c : all) {
        c.engine->run(0);
        const double difference = relative_difference(ours, c.engine->result());
        if (difference > (c.bf16_dots ? 1e-2 : 1e-5)) {
            dflash::raise<dflash::backend_error>(c.name, ": its product differs from ours by ", difference);
        }
    }
}

int run(const options& o) {
    memory_probe probe(o.threads);
    neighbours others(o.patience);
    const compute_peaks peaks = measure_peaks(o.threads);
    nlohmann::ordered_json out = preamble("bench-linear", o.threads, peaks);
    out["rounds"] = o.rounds;
    out["missing"] = nlohmann::ordered_json::array();
    std::printf("one product, %td to %td, %d threads, %d rounds\n", k, n, o.threads, o.rounds);

    const cached_rows noise([] {
        dflash::transformer_shape shape;
        shape.kv_heads = 1;
        shape.head_dim = k;
        return shape;
    }());
    std::vector<float> weights;
    for (index row = 0; row < n; ++row) {
        const std::span<const float> values = noise.key(row / 509, row);
        weights.insert(weights.end(), values.begin(), values.end());
    }
    for (const std::string& type_name : o.types) {
        const product_task task = {.k = k,
                                   .n = n,
                                   .matrices = o.matrices,
                                   .threads = o.threads,
                                   .type = type_named(type_name),
                                   .weights = weights};
        std::vector<product_contender> all = contenders(task, wanted_peers(o), out["missing"]);
        for (const index rows : o.rows) {
            std::vector<float> x(weights.begin(), weights.begin() + rows * k);
            cell c;
            c.labels = {{"kind", "linear"}, {"work", "2048 to 6144"}, {"type", type_name}, {"rows", rows}};
            for (const product_contender& p : all) {
                p.engine->prepare(x, rows);
                c.all.push_back({.name = p.name,
                                 .seconds = {},
                                 .attention = {},
                                 .least = {static_cast<double>(k * n * size_of(task.type)),
                                           2.0 * static_cast<double>(rows * k * n), 0},
                                 .peak = p.bf16_dots && peaks.bf16_dot > 0 ? peaks.bf16_dot : peaks.fma,
                                 .f32_peak = peaks.fma});
            }
            check_agreement(all);
            for (int round = 0; round < o.rounds; ++round) {
                std::vector<double> reads;
                std::vector<double> calls;
                c.others.push_back(others.undisturbed([&] {
                    reads.clear();
                    calls.clear();
                    for (const product_contender& p : all) {
                        reads.push_back(probe.bytes_per_second());
                        std::vector<double> seconds;
                        for (int matrix = 0; matrix < o.matrices; ++matrix) {
                            seconds.push_back(seconds_of([&] { p.engine->run(matrix); }));
                        }
                        calls.push_back(median(seconds));
                    }
                }));
                for (std::size_t i = 0; i < all.size(); ++i) {
                    c.all[i].seconds.push_back(calls[i]);
                }
                c.bandwidth.push_back(median(reads));
            }
            std::printf("%s\n", line_of("  " + type_name + ", rows " + std::to_string(rows), c).c_str());
            std::fflush(stdout);
            out["cells"].push_back(c.json());
        }
    }
    for (const auto& line : out["missing"]) {
        std::printf("%s\n", line.get<std::string>().c_str());
    }
    if (!o.json.empty()) {
        write_json(o.json, out);
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    return dflash::examples::run_program("bench-linear", [&] { return run(parse(argc, argv)); });
}
