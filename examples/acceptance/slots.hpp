// What is measured: at every slot that was looked at, the target's law p and the draft's law q side by side.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include <dflash/concepts/observer.hpp>
#include <dflash/decode/rejection_sampling.hpp>
#include <dflash/sampling/filters.hpp>

DFLASH_BEGIN_NAMESPACE
namespace examples {

/// Sums over slots; a slot counts when every draft before it stood.
struct slot_sums {
    index slots = 0;
    index agreed = 0;        ///< the draft was the target's own draw
    double optimum = 0;      ///< 1 - TV(p, q): drafts drawn from q cannot do better
    double coupled = 0;      ///< (1 - TV) / (1 + TV): what coupling promises at least
    double independent = 0;  ///< sum of p q: draft and target draw on their own
    double best_token = 0;   ///< p of the token with the largest q

    /// Enters one slot. Scores as token_filter makes them. Shapes: p, q (v).
    void add(std::span<const float> p_scores, std::span<const float> q_scores, bool agree) {
        token_weights p;
        token_weights q;
        p.assign(p_scores);
        q.assign(q_scores);
        double apart = 0;
        double meet = 0;
        token_id likeliest = 0;
        for (token_id t = 0; t < static_cast<token_id>(p_scores.size()); ++t) {
            apart += std::fabs(p.probability(t) - q.probability(t)) / 2;
            meet += p.probability(t) * q.probability(t);
            likeliest = q.probability(t) > q.probability(likeliest) ? t : likeliest;
        }
        ++slots;
        agreed += agree ? 1 : 0;
        optimum += 1 - apart;
        coupled += (1 - apart) / (1 + apart);
        independent += meet;
        best_token += p.probability(likeliest);
    }
};

/// Keeps the draft's logits of a round until the decoder tells how the round went.
class slot_recorder {
public:
    slot_recorder(slot_sums& sums, std::vector<float>& rows, const sampling_options& options)
        : sums_(&sums), rows_(&rows), filter_(options) {}

    void operator()(const tensor_event<>& event) {
        if (event.name == "draft_logits") {
            rows_->clear();
            for (index i = 0; i < event.rows.rows(); ++i) {
                rows_->insert(rows_->end(), event.rows.row(i).begin(), event.rows.row(i).end());
            }
        }
    }

    void operator()(const round_event<>& round) {
        const index vocab = round.logits.cols();
        const index looked_at = (std::min)(round.report.accepted + 1, round.report.drafted);
        std::vector<float> p(static_cast<std::size_t>(vocab));
        std::vector<float> q(p.size());
        for (index i = 0; i < looked_at; ++i) {
            std::copy_n(round.logits.row(i).data(), vocab, p.data());
            std::copy_n(rows_->data() + i * vocab, vocab, q.data());
            if (filter_.apply(p) && filter_.apply(q)) {
                sums_->add(p, q, i < round.report.accepted);
            }
        }
    }

private:
    slot_sums* sums_;
    std::vector<float>* rows_;
    token_filter filter_;
};

}  // namespace examples
DFLASH_END_NAMESPACE
