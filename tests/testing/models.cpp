// The model kit: sound models pass, and for each axiom a model that breaks it is reported with that number.
#include <doctest/doctest.h>

#include <cmath>

#include <dflash/testing/conformance.hpp>
#include <support/toy_models.hpp>

namespace dflash::test {

namespace {

enum class flaw {
    none,
    block_changes_bits,      ///< an ulp that depends on the number of rows
    sees_the_right,          ///< a row knows its right neighbour
    wrong_rows,              ///< the first rows of logits instead of the last
    features_of_last_only,   ///< only the last row's taps are written
    features_not_in_blocks,  ///< taps of blocks differ
    appends_then_raises,
    does_not_raise,
    vocabulary_grows,
    cache_born_long,
    crop_shows_no_length,  ///< length() stays
    crop_keeps_newest,     ///< what was cropped shines through
    crop_spoils_the_past,  ///< a kept row changes
    state_is_shared,       ///< all caches of a model are one
    length_by_call,        ///< a forward of m tokens counts as one
};

/// Sums of tokens with weights that depend on the position; one row of state a position.
class flawed_model {
public:
    using space = host_space;
    static constexpr determinism guarantee = determinism::cross_isa;

    struct cache_type {
        std::vector<float> sums;
        index room = 0;
        flaw f = flaw::none;
        float ghost = 0;
        index extra = 0;
        [[nodiscard]] index length() const { return static_cast<index>(sums.size()) + extra; }
        [[nodiscard]] index capacity() const { return room; }
        void crop(index n) {
            if (f == flaw::crop_shows_no_length && n < length()) {
                extra = length() - n;
            }
            if (f == flaw::crop_keeps_newest && n < length()) {
                ghost = sums.back();
            }
            sums.resize(static_cast<std::size_t>(n));
            if (f == flaw::crop_spoils_the_past && n > 1) {
                sums.back() += 0.5F;
            }
        }
    };

    explicit flawed_model(flaw f) : flaw_(f) {}
    [[nodiscard]] index vocab_size() const { return flaw_ == flaw::vocabulary_grows && calls_ > 3 ? 8 : 7; }
    [[nodiscard]] index max_positions() const { return 1000; }
    [[nodiscard]] index feature_size() const { return 2; }
    [[nodiscard]] cache_type make_cache(index n) const {
        cache_type cache;
        cache.room = n;
        cache.f = flaw_;
        if (flaw_ == flaw::cache_born_long) {
            cache.extra = 1;
        }
        return cache;
    }
    void forward(std::span<const token_id> tokens, cache_type& cache, const forward_output<>& out) {
        ++calls_;
        const index m = size_of(tokens);
        if (cache.length() + m > cache.capacity() && flaw_ != flaw::does_not_raise && flaw_ != flaw::cache_born_long &&
            flaw_ != flaw::crop_shows_no_length) {
            if (flaw_ == flaw::appends_then_raises) {
                cache.sums.push_back(0);
            }
            raise<config_error>("no room");
        }
        for (index i = 0; i < m; ++i) {
            const float before = cache.sums.empty() ? 0.0F : cache.sums.back();
            float sum =
                std::fmod(before * 3.0F + static_cast<float>(tokens[static_cast<std::size_t>(i)]) + 1.0F, 101.0F);
            if (flaw_ == flaw::crop_keeps_newest) {
                sum += cache.ghost;
                cache.ghost = 0;
            }
            if (flaw_ == flaw::state_is_shared) {
                sum += shared_;
                shared_ = static_cast<float>(tokens[static_cast<std::size_t>(i)]);
            }
            if (flaw_ != flaw::length_by_call || i == 0) {
                cache.sums.push_back(sum);
            } else {
                cache.sums.back() = sum;
            }
            float law = sum;
            if (flaw_ == flaw::block_changes_bits && m > 3) {
                law = std::nextafter(law, 1000.0F);
            }
            if (flaw_ == flaw::sees_the_right && i + 1 < m) {
                law += static_cast<float>(tokens[static_cast<std::size_t>(i + 1)]);
            }
            const index r = out.logits.rows();
            const index row = flaw_ == flaw::wrong_rows ? (i < r ? i : -1) : i - (m - r);
            for (index k = 0; k < out.logits.cols() && row >= 0; ++k) {
                out.logits(row, k) = law + static_cast<float>(k * k % 5);
            }
            if (!out.features.empty() && (flaw_ != flaw::features_of_last_only || i + 1 == m)) {
                out.features(i, 0) = sum;
                out.features(i, 1) = flaw_ == flaw::features_not_in_blocks ? static_cast<float>(m) : 1.0F;
            }
        }
    }

private:
    flaw flaw_;
    index calls_ = 0;
    float shared_ = 0;
};

/// Lends an embedding and a head.
class lending_model : public flawed_model {
public:
    explicit lending_model(int fault) : flawed_model(flaw::none), fault_(fault) {}
    [[nodiscard]] index hidden_size() const { return 3; }
    void embed(std::span<const token_id> ids, matrix_view<float> out) const {
        for (index i = 0; i < size_of(ids); ++i) {
            for (float& x : out.row(i)) {
                x = static_cast<float>(ids[static_cast<std::size_t>(i)]) + (fault_ == 1 ? static_cast<float>(i) : 0.0F);
            }
        }
    }
    void head(matrix_view<const float> hidden, matrix_view<float> out) const {
        for (index i = 0; i < hidden.rows(); ++i) {
            for (index k = 0; k < out.cols(); ++k) {
                const float x = hidden(i, 0) * static_cast<float>(k);
                out(i, k) = fault_ == 2 && hidden.rows() > 1 ? std::nextafter(x, 1000.0F) : x;
            }
        }
    }

private:
    int fault_;
};

/// Promises less, keeps less.
struct drifting_model : flawed_model {
    static constexpr determinism guarantee = determinism::run_to_run;
    drifting_model() : flawed_model(flaw::block_changes_bits) {}
};

testing::report examine(flaw f) {
    flawed_model model(f);
    return testing::check_model_conformance(model, {.seed = 5, .cases = 12, .longest = 20});
}

}  // namespace

static_assert(feature_target<lending_model>);

TEST_CASE("sound models pass") {
    const testing::report found = examine(flaw::none);
    CHECK_MESSAGE(found.passed(), found.text());
    CHECK(found.text().empty());
    model_t t;
    model_r r;
    context_model c;
    toy_model<last_token_law> tiny(1);
    CHECK(testing::check_model_conformance(t).passed());
    CHECK(testing::check_model_conformance(r).passed());
    CHECK(testing::check_model_conformance(c).passed());
    CHECK(testing::check_model_conformance(tiny).passed());
    lending_model lending(0);
    CHECK(testing::check_model_conformance(lending).passed());
    drifting_model drifting;
    CHECK(testing::check_model_conformance(drifting).passed());
}

TEST_CASE("each broken axiom is reported with its number") {
    const auto broke = [](flaw f, const char* subject, int axiom) {
        CAPTURE(static_cast<int>(f));
        const testing::report found = examine(f);
        CHECK_MESSAGE(found.broke(subject, axiom), found.text());
    };
    broke(flaw::block_changes_bits, "target_model", 3);
    broke(flaw::sees_the_right, "target_model", 2);
    broke(flaw::wrong_rows, "target_model", 2);
    broke(flaw::features_of_last_only, "target_model", 6);
    broke(flaw::features_not_in_blocks, "target_model", 6);
    broke(flaw::appends_then_raises, "target_model", 4);
    broke(flaw::appends_then_raises, "kv_cache", 4);
    broke(flaw::does_not_raise, "target_model", 4);
    broke(flaw::does_not_raise, "kv_cache", 4);
    broke(flaw::vocabulary_grows, "target_model", 5);
    broke(flaw::cache_born_long, "kv_cache", 1);
    broke(flaw::crop_shows_no_length, "kv_cache", 2);
    broke(flaw::crop_keeps_newest, "kv_cache", 3);
    broke(flaw::crop_spoils_the_past, "kv_cache", 3);
    broke(flaw::state_is_shared, "target_model", 2);
    broke(flaw::length_by_call, "target_model", 1);
    for (int fault = 1; fault <= 2; ++fault) {
        lending_model lending(fault);
        CHECK(testing::check_model_conformance(lending).broke("feature_target", 7));
    }
}

TEST_CASE("a report keeps the first findings of each axiom and reads like sentences") {
    testing::report r;
    CHECK(r.expect(true, "thing", 1, "never"));
    for (int i = 0; i < 100; ++i) {
        CHECK_FALSE(r.expect(false, "thing", 2, "got ", i, ", needs ", i + 1));
    }
    CHECK(r.findings().size() == 4);
    CHECK(r.text().rfind("thing axiom 2: got 0, needs 1\n", 0) == 0);
    CHECK(r.broke("thing", 2));
    CHECK_FALSE(r.broke("thing", 1));
    CHECK_FALSE(r.broke("other", 2));
    testing::report other;
    other.absorb(r);
    CHECK(other.text() == r.text());
}

TEST_CASE("dice are the same everywhere") {
    testing::dice die(1);
    CHECK(die.roll() == 4258357672397823257U);
    bool seen[7] = {};
    for (int i = 0; i < 200; ++i) {
        const index n = die.below(7);
        REQUIRE(n >= 0);
        REQUIRE(n < 7);
        seen[n] = true;
        const float x = die.fraction();
        CHECK(x >= 0.0F);
        CHECK(x < 1.0F);
    }
    CHECK(std::all_of(std::begin(seen), std::end(seen), [](bool b) { return b; }));
}

}  // namespace dflash::test
