// What a section has found: lines for people on standard output, and the same as one JSON object a line in a file, so
// that whatever ends the section early loses nothing that was found before.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <string>
#include <string_view>

#include <dflash/vocabulary.hpp>

namespace device_check {

using dflash::index;

/// A number with a name; units are part of the name.
struct figure {
    const char* name;
    double value;
};

[[nodiscard]] inline std::string in_json(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
        }
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return out + '"';
}

/// JSON has no infinity and no NaN.
[[nodiscard]] inline std::string in_json(double value) {
    char text[40];
    std::snprintf(text, sizeof text, "%.9g", value);
    return std::isfinite(value) ? text : "null";
}

class report {
public:
    /// `path`: where the JSON lines go, may be empty. `seconds`: for the whole section.
    report(const std::string& path, double seconds)
        : file_(path.empty() ? nullptr : std::fopen(path.c_str(), "a")),
          end_(std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                      std::chrono::duration<double>(seconds))) {}
    report(const report&) = delete;
    report& operator=(const report&) = delete;
    ~report() {
        if (file_ != nullptr) {
            std::fclose(file_);
        }
    }

    /// How many of the compared elements differ: 0 is the only good answer.
    void equality(const std::string& what, index compared, index differing) {
        holds_ = holds_ && differing == 0 && compared > 0;
        std::printf("  %-58s %12td compared %10td differ%s\n", what.c_str(), compared, differing,
                    differing == 0 && compared > 0 ? "" : "   <--");
        line("{\"what\": " + in_json(what) + ", \"compared\": " + std::to_string(compared) +
             ", \"differing\": " + std::to_string(differing) + "}");
    }

    void figures(const std::string& what, std::initializer_list<figure> values) {
        std::printf("  %-44s", what.c_str());
        std::string object = "{\"what\": " + in_json(what);
        for (const figure& f : values) {
            std::printf("  %s %.4g", f.name, f.value);
            object += ", " + in_json(f.name) + ": " + in_json(f.value);
        }
        std::printf("\n");
        line(object + "}");
    }

    void note(const std::string& what, const std::string& text) {
        std::printf("  %-44s  %s\n", what.c_str(), text.c_str());
        line("{\"what\": " + in_json(what) + ", \"note\": " + in_json(text) + "}");
    }

    /// Does it unless the time is over; an exception is written down, and the section goes on.
    template <class Body>
    void attempt(const std::string& what, Body body) {
        if (std::chrono::steady_clock::now() > end_) {
            complete_ = false;
            note(what, "left out: the time of the section is over");
            return;
        }
        try {
            body();
        } catch (const std::exception& failure) {
            holds_ = false;
            note(what, std::string("failed: ") + failure.what());
        }
    }

    /// Whether nothing differed and nothing failed.
    [[nodiscard]] bool holds() const { return holds_; }
    /// Whether nothing was left out.
    [[nodiscard]] bool complete() const { return complete_; }

private:
    void line(const std::string& object) {
        std::fflush(stdout);
        if (file_ != nullptr) {
            std::fprintf(file_, "%s\n", object.c_str());
            std::fflush(file_);
        }
    }

    std::FILE* file_;
    std::chrono::steady_clock::time_point end_;
    bool holds_ = true;
    bool complete_ = true;
};

}  // namespace device_check
