// dflash-walkthrough: one round of DFlash in seven steps, with every number shown and every sentence checked.
//
// Exit status: 0 when every sentence came true (with --mistake: when the mistake was seen to break what it should),
// 1 when not, 2 for usage and files.
#include "walkthrough/classroom.hpp"
#include "walkthrough/options.hpp"

int main(int argc, char** argv) {
    using namespace dflash::walkthrough;
    return run_walkthrough(argc, argv, [](classroom& room) {
        step_1_prefill(room);
        step_2_fuse_and_normalise(room);
        step_3_prepare_the_block(room);
        step_4_attend_with_injected_keys(room);
        step_5_draft(room);
        step_6_verify_and_accept(room);
        step_7_commit_and_go_on(room);
    });
}
