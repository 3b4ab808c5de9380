// oneDNN 2: weights in whatever format its product of that many rows likes best. With bf16 weights x is rounded to bf16
// beforehand, which is not timed, and y is f32.
#include "peers/products.hpp"

#if defined(DFLASH_PEER_ONEDNN)
#include <cstring>

#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>
#endif

namespace dflash::bench {

#if defined(DFLASH_PEER_ONEDNN)

namespace {

using memory = dnnl::memory;

class onednn_products final : public product_engine {
public:
    explicit onednn_products(const product_task& task)
        : task_(task), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
        omp_set_num_threads(task.threads);  // oneDNN asks the runtime
    }

    void prepare(std::span<const float> x, index rows) override {
        using tag = memory::format_tag;
        const memory::dim m = rows;
        const memory::dim n = task_.n;
        const memory::dim k = task_.k;
        const auto type = task_.type == dtype::f32 ? memory::data_type::f32 : memory::data_type::bf16;
        const memory::desc x_form({m, k}, type, tag::ab);
        const memory::desc w_any({k, n}, type, tag::any);
        const memory::desc y_form({m, n}, memory::data_type::f32, tag::ab);
        const dnnl::matmul::primitive_desc plan(dnnl::matmul::desc(x_form, w_any, y_form), engine_);
        product_ = dnnl::matmul(plan);

        memory given_x({{m, k}, memory::data_type::f32, tag::ab}, engine_);
        std::memcpy(given_x.get_data_handle(), x.data(), static_cast<std::size_t>(m * k) * 4);
        x_ = memory(x_form, engine_);
        dnnl::reorder(given_x, x_).execute(stream_, given_x, x_);
        // (n, k) row-major is (k, n) column-major.
        memory given_w({{k, n}, memory::data_type::f32, tag::ba}, engine_);
        std::memcpy(given_w.get_data_handle(), task_.weights.data(), task_.weights.size_bytes());
        weights_.clear();
        for (int i = 0; i < task_.matrices; ++i) {
            weights_.emplace_back(plan.weights_desc(), engine_);
            dnnl::reorder(given_w, weights_.back()).execute(stream_, given_w, weights_.back());
        }
        y_ = memory(y_form, engine_);
        stream_.wait();
        size_ = static_cast<std::size_t>(m * n);
    }

    void run(int matrix) override {
        product_.execute(
            stream_,
            {{DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, weights_[static_cast<std::size_t>(matrix)]}, {DNNL_ARG_DST, y_}});
        stream_.wait();
    }

    std::vector<float> result() override {
        const auto* y = static_cast<const float*>(y_.get_data_handle());
        return {y, y + size_};
    }

private:
    product_task task_;
    dnnl::engine engine_;
    dnnl::stream stream_;
    dnnl::matmul product_;
    memory x_;
    memory y_;
    std::vector<memory> weights_;
    std::size_t size_ = 0;
};

}  // namespace

std::unique_ptr<product_engine> make_onednn_products(const product_task& task) {
    return std::make_unique<onednn_products>(task);
}

#else

std::unique_ptr<product_engine> make_onednn_products(const product_task&) {
    return nullptr;
}

#endif

}  // namespace dflash::bench
