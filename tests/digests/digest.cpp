// Whole runs as one number each: the same on every machine, for every compiler, flag, instruction set and thread count.
//
// usage: digest <folder of pairs>...   (a pair: a folder with target/ and draft/)
// For each pair it prints the digest of the target's logits over a prompt, and of what speculative decoding emits.
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include <dflash/cpu/exact.hpp>
#include <dflash/front/model_pair.hpp>
#include <dflash/numerics/digest.hpp>

namespace {

using dflash::index;
using dflash::token_id;
using pair = dflash::model_pair<dflash::cpu::exact>;

std::vector<token_id> some_prompt(index vocab_size) {
    std::vector<token_id> prompt;
    for (index i = 0; i < 12; ++i) {
        prompt.push_back(static_cast<token_id>((i * i * 7 + i * 3 + 2) % vocab_size));
    }
    return prompt;
}

void print_digests(const std::string& folder) {
    pair models(folder + "/target", folder + "/draft");
    pair::target_type& target = models.target();
    const std::vector<token_id> prompt = some_prompt(target.vocab_size());
    const auto rows = static_cast<index>(prompt.size());

    std::vector<float> logits(prompt.size() * static_cast<std::size_t>(target.vocab_size()));
    std::vector<float> features(prompt.size() * static_cast<std::size_t>(target.feature_size()));
    auto cache = target.make_cache(rows);
    target.forward(prompt, cache,
                   {{logits.data(), rows, target.vocab_size()}, {features.data(), rows, target.feature_size()}});
    dflash::numerics::digest numbers;
    numbers.add(logits);
    numbers.add(features);

    dflash::generation_limits limits;
    limits.max_new_tokens = 24;
    dflash::numerics::digest text;
    for (const token_id token : models.generate(prompt, limits).tokens) {
        text.add(static_cast<std::uint64_t>(token));
    }
    std::printf("%s: logits %016llx tokens %016llx\n", folder.c_str(), static_cast<unsigned long long>(numbers.value()),
                static_cast<unsigned long long>(text.value()));
}

}  // namespace

int main(int count, char** words) {
    for (int i = 1; i < count; ++i) {
        print_digests(words[i]);
    }
    return count > 1 ? 0 : 2;
}
