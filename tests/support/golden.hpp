// Reading right answers and comparing with them.
#pragma once

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <dflash/concepts/observer.hpp>
#include <nlohmann/json.hpp>

namespace dflash::test {

inline nlohmann::json read_json(const std::string& path) {
    std::ifstream file(path);
    return nlohmann::json::parse(file);
}

/// A matrix that was seen on the way.
struct seen_tensor {
    std::string name;
    index layer = -1;
    std::vector<std::vector<float>> rows;
};

inline std::vector<std::vector<float>> copy_rows(matrix_view<const float> view) {
    std::vector<std::vector<float>> rows;
    for (index r = 0; r < view.rows(); ++r) {
        rows.emplace_back(view.row(r).begin(), view.row(r).end());
    }
    return rows;
}

/// An observer that keeps a copy of every event in lists that outlive it.
class keep_all {
public:
    struct store {
        std::vector<seen_tensor> tensors;
        std::vector<std::vector<std::vector<float>>> verify_logits;  // rounds with drafts
    };

    explicit keep_all(store& into) : store_(&into) {}

    void operator()(const tensor_event<>& event) const {
        store_->tensors.push_back({std::string(event.name), event.layer, copy_rows(event.rows)});
    }
    void operator()(const round_event<>& event) const {
        if (!event.drafts.empty()) {
            store_->verify_logits.push_back(copy_rows(event.logits));
        }
    }

private:
    store* store_;
};

/// The n-th event of a name and layer.
inline const seen_tensor& find_seen(const std::vector<seen_tensor>& seen, const std::string& name, index layer,
                                    index n) {
    for (const seen_tensor& tensor : seen) {
        if (tensor.name == name && tensor.layer == layer && n-- == 0) {
            return tensor;
        }
    }
    raise<contract_error>("no event ", name, " of layer ", layer);
}

/// max |a - b| / max |b|; infinite when the shapes differ.
inline double relative_error(const std::vector<std::vector<float>>& got, const std::vector<std::vector<double>>& want) {
    if (got.size() != want.size()) {
        return HUGE_VAL;
    }
    double error = 0;
    double size = 0;
    for (std::size_t r = 0; r < want.size(); ++r) {
        if (got[r].size() != want[r].size()) {
            return HUGE_VAL;
        }
        for (std::size_t c = 0; c < want[r].size(); ++c) {
            error = (std::max)(error, std::abs(static_cast<double>(got[r][c]) - want[r][c]));
            size = (std::max)(size, std::abs(want[r][c]));
        }
    }
    return size == 0 ? HUGE_VAL : error / size;
}

/// Rounds that start with at least `block` tokens of budget must agree; after that only the sum.
inline bool same_lengths(const std::vector<index>& got, const std::vector<index>& want, index block, index budget) {
    index left = budget - 1;
    std::size_t i = 0;
    for (; left >= block && i < got.size() && i < want.size(); ++i) {
        if (got[i] != want[i]) {
            return false;
        }
        left -= got[i];
    }
    index sum_got = 0;
    index sum_want = 0;
    for (std::size_t k = i; k < got.size(); ++k) {
        sum_got += got[k];
    }
    for (std::size_t k = i; k < want.size(); ++k) {
        sum_want += want[k];
    }
    return sum_got == sum_want;
}

}  // namespace dflash::test
