// The flags that the comparing programs share.
#pragma once

#include <string>
#include <vector>

#include <dflash/vocabulary.hpp>

#include "common/program.hpp"

namespace dflash::bench {

struct common_options {
    int rounds = 5;
    int threads = 2;
    std::vector<std::string> peers = {"llama.cpp", "torch"};
    std::string folder = "build/bench";
    std::string json;
    double patience = 60;
};

/// Adds --rounds, --threads, --peers, --folder and --json.
inline void add_common_options(CLI::App& app, common_options& options) {
    app.add_option("--rounds", options.rounds, "rounds in which all contenders take turns")
        ->capture_default_str()
        ->transform(examples::whole_number(1, 1000));
    app.add_option("--threads", options.threads, "threads of every contender")
        ->capture_default_str()
        ->transform(examples::whole_number(1, 1024));
    app.add_option("--peers", options.peers, "peers, or none")->delimiter(',')->capture_default_str();
    app.add_option("--folder", options.folder, "where models for peers are written")->capture_default_str();
    app.add_option("--patience", options.patience, "seconds to wait for a quiet machine, all waits together")
        ->capture_default_str();
    app.add_option("--json", options.json, "file for all numbers");
}

/// "none" stands for no peers.
inline std::vector<std::string> wanted_peers(const common_options& options) {
    return options.peers.size() == 1 && options.peers.front() == "none" ? std::vector<std::string>() : options.peers;
}

/// f32 or bf16. Errors: config_error.
[[nodiscard]] inline dtype type_named(const std::string& name) {
    if (name != "f32" && name != "bf16") {
        raise<config_error>("--types: got \"", name, "\", needs f32 or bf16");
    }
    return name == "f32" ? dtype::f32 : dtype::bf16;
}

}  // namespace dflash::bench
