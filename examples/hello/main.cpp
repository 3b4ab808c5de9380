// [hello]
#include <cstdio>
#include <string>
#include <vector>

#include <dflash/default_backend.hpp>
#include <dflash/front/model_pair.hpp>

int main(int argc, char** argv) {
    const std::string folder = argc > 1 ? argv[1] : "examples/models/worked-problems";
    try {
        dflash::model_pair<dflash::default_backend> pair(folder + "/target", folder + "/draft");
        // Add 53 and 666.
        const std::vector<dflash::token_id> prompt = {124, 4, 116, 114, 21, 4, 117, 117, 117, 110, 3};
        const dflash::generation_result result = pair.generate(prompt);
        for (const dflash::token_id token : result.tokens) {
            std::printf("%d ", token);
        }
        std::printf("\n%.2f tokens a round\n", result.stats.mean_acceptance_length());
    } catch (const dflash::error& failure) {
        std::fprintf(stderr, "hello: error: %s\n", failure.what());
        return 2;
    }
}
// [/hello]
