// The rotary table of a transformer, grown to the positions that are used.
//
// Models state limits of 100,000 positions and more; most sequences are short, and a row costs time to make. Growing
// changes no bits, because a row depends on its position alone.
#pragma once

#include <algorithm>
#include <utility>

#include <dflash/numerics/rope.hpp>
#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

class rope_positions {
public:
    /// Rows for up to `limit` positions; none is made yet. Errors: config_error for parameters that make no sense.
    rope_positions(const numerics::rope_parameters& parameters, index head_dim, index limit)
        : parameters_(parameters), head_dim_(head_dim), limit_(limit), table_(parameters, head_dim, 0) {}

    /// Replaces the rows by injected ones, which must cover all positions. Errors: config_error with both shapes.
    void inject(numerics::rope_table table) {
        if (table.half() * 2 != head_dim_ || table.positions() < limit_) {
            raise<config_error>("rope_table: (", table.positions(), ", ", table.half(), "), needs (", limit_, ", ",
                                head_dim_ / 2, ")");
        }
        table_ = std::move(table);
    }

    /// Makes rows for positions below n, n <= limit.
    void reserve(index n) {
        if (table_.positions() < n) {
            const index doubled = (std::max)(index{256}, 2 * table_.positions());
            table_ = numerics::rope_table(parameters_, head_dim_, (std::min)(limit_, (std::max)(n, doubled)));
        }
    }

    [[nodiscard]] const numerics::rope_table& table() const noexcept { return table_; }

private:
    numerics::rope_parameters parameters_;
    index head_dim_;
    index limit_;
    numerics::rope_table table_;
};

DFLASH_END_NAMESPACE
