#include "peers/torch.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "peers/gguf.hpp"

namespace dflash::bench {

namespace {

/// The first python3 that can import torch: the user's own, or the system's. Empty: none.
const std::string& python_with_torch() {
    static const std::string found = [] {
        for (const char* python : {"python3", "/usr/bin/python3"}) {
            if (std::system((std::string(python) + " -c 'import numpy, torch' >/dev/null 2>&1").c_str()) == 0) {
                return std::string(python);
            }
        }
        return std::string();
    }();
    return found;
}

/// A program that answers line by line.
class child_process {
public:
    explicit child_process(const std::vector<std::string>& command) {
        int to[2];
        int from[2];
        if (pipe(to) != 0 || pipe(from) != 0) {
            raise<backend_error>("torch: no pipe");
        }
        std::vector<char*> argv;
        for (const std::string& word : command) {
            argv.push_back(const_cast<char*>(word.c_str()));
        }
        argv.push_back(nullptr);
        id_ = fork();
        if (id_ == 0) {
            dup2(to[0], STDIN_FILENO);
            dup2(from[1], STDOUT_FILENO);
            close(to[1]);
            close(from[0]);
            execvp(argv[0], argv.data());
            _exit(127);
        }
        close(to[0]);
        close(from[1]);
        in_ = fdopen(to[1], "w");
        out_ = fdopen(from[0], "r");
    }
    child_process(const child_process&) = delete;
    child_process& operator=(const child_process&) = delete;
    ~child_process() {
        std::fclose(in_);
        std::fclose(out_);
        waitpid(id_, nullptr, 0);
    }

    /// Sends a line and waits for "ok". Errors: backend_error.
    void ask(const std::string& line) {
        std::fputs(line.c_str(), in_);
        std::fputc('\n', in_);
        std::fflush(in_);
        expect_ok();
    }
    void expect_ok() {
        char answer[4] = {};
        if (std::fread(answer, 1, 3, out_) != 3 || std::string(answer) != "ok\n") {
            raise<backend_error>("torch: torch_steps.py ended");
        }
    }
    void read(std::vector<float>& values) {
        if (std::fread(values.data(), sizeof(float), values.size(), out_) != values.size()) {
            raise<backend_error>("torch: torch_steps.py ended");
        }
    }

private:
    pid_t id_ = -1;
    std::FILE* in_ = nullptr;
    std::FILE* out_ = nullptr;
};

class torch_engine final : public step_engine {
public:
    torch_engine(const work& w, int threads) : vocab_size_(w.target.vocab_size) {
        const model_file model = gguf_of(w);
        const target_shape& t = w.target;
        rows_file_ = model.path.string() + ".rows";
        nlohmann::json about = {{"model", model.path.string()},
                                {"type", w.type == dtype::f32 ? "f32" : "bf16"},
                                {"offsets", model.offsets},
                                {"threads", threads},
                                {"layers", t.layers},
                                {"hidden", t.hidden_size},
                                {"heads", t.heads},
                                {"kv_heads", t.kv_heads},
                                {"head_dim", t.head_dim},
                                {"intermediate", t.intermediate_size},
                                {"vocab", t.vocab_size},
                                {"eps", t.rms_norm_eps},
                                {"theta", t.rope.theta},
                                {"tied", t.tied_head},
                                {"rows", rows_file_}};
        const std::string file = model.path.string() + ".json";
        std::ofstream(file) << about;
        std::signal(SIGPIPE, SIG_IGN);
        child_ = std::make_unique<child_process>(
            std::vector<std::string>{python_with_torch(), DFLASH_PEERS_FOLDER "/torch_steps.py", file});
        child_->expect_ok();
    }

    void open(index context, index room, const cached_rows& rows) override {
        std::ofstream file(rows_file_, std::ios::binary);
        const std::span<const float> values = rows.values();
        file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size_bytes()));
        file.close();
        child_->ask("open " + std::to_string(context) + " " + std::to_string(room));
    }

    void forward(std::span<const token_id> tokens, index logit_rows) override {
        std::string line = "forward " + std::to_string(logit_rows);
        for (const token_id token : tokens) {
            line.append(1, ' ').append(std::to_string(token));
        }
        child_->ask(line);
        logit_rows_ = logit_rows;
    }

    void crop(index n) override {
        child_->ask("crop " + std::to_string(n));
        // Its threads go on spinning for a moment; they must not disturb whoever comes next.
        std::this_thread::sleep_for(std::chrono::milliseconds(15));
    }

    std::span<const float> logits() override {
        child_->ask("logits");
        logits_.resize(static_cast<std::size_t>(logit_rows_ * vocab_size_));
        child_->read(logits_);
        return logits_;
    }

private:
    index vocab_size_;
    index logit_rows_ = 0;
    std::string rows_file_;
    std::unique_ptr<child_process> child_;
    std::vector<float> logits_;
};

}  // namespace

step_peer torch_peer() {
    if (python_with_torch().empty()) {
        return {.label = "torch",
                .why_not = "python3 cannot import torch (Debian: python3-torch)",
                .kv_bytes = {},
                .make = {}};
    }
    return {.label = "torch",
            .why_not = {},
            .kv_bytes = [](dtype type) { return size_of(type); },
            .make = [](const work& w, int threads) -> std::unique_ptr<step_engine> {
                return std::make_unique<torch_engine>(w, threads);
            }};
}

}  // namespace dflash::bench
