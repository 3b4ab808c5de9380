// The speculative decoder against the serial text, as properties over blocks, budgets, ends, drafts, models, samplers.
#include <doctest/doctest.h>

#include <support/decoder_suite.hpp>

namespace dflash::test {

namespace {

template <void (decoder_suite<library_kit>::*Part)()>
void holds() {
    decoder_suite<library_kit> suite{library_kit{}};
    (suite.*Part)();
    CHECK_MESSAGE(suite.report().passed(), suite.report().text());
    CHECK(suite.tried() > 50);
}

using suite = decoder_suite<library_kit>;

}  // namespace

TEST_CASE("budgets, drafts and blocks") {
    holds<&suite::budgets>();
}
TEST_CASE("stop tokens anywhere in a block") {
    holds<&suite::stops>();
}
TEST_CASE("stop sequences inside and across blocks") {
    holds<&suite::stop_sequences>();
}
TEST_CASE("context limits around the ends of blocks") {
    holds<&suite::contexts>();
}
TEST_CASE("a drafter that holds less than the target") {
    holds<&suite::drafter_limits>();
}
TEST_CASE("prompts in chunks") {
    holds<&suite::chunks>();
}
TEST_CASE("recurrent state with snapshots, poisoned caches, noise") {
    holds<&suite::other_models>();
}
TEST_CASE("cancelling after each round") {
    holds<&suite::cancels>();
}
TEST_CASE("a call that raises leaves no trace") {
    holds<&suite::exceptions>();
}
TEST_CASE("rows that are not finite") {
    holds<&suite::not_finite>();
}
TEST_CASE("one decoder many times, two decoders in turns") {
    holds<&suite::reuse>();
}
TEST_CASE("samplers with history") {
    holds<&suite::history>();
}

}  // namespace dflash::test
