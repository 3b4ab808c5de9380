#include <dflash/interop/eigen.hpp>

#include <doctest/doctest.h>

#include <vector>

namespace dflash::test {
namespace {

using row_major = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

TEST_CASE("rows are shared with Eigen, strides included") {
    std::vector<float> memory(4 * 7, -1.0F);
    const matrix_view<float> view(memory.data() + 1, 3, 5, 7);  // misaligned on purpose
    for (index r = 0; r < 3; ++r) {
        for (index c = 0; c < 5; ++c) {
            view(r, c) = static_cast<float>(10 * r + c);
        }
    }
    auto map = interop::as_eigen(view);
    CHECK(map.rows() == 3);
    CHECK(map.cols() == 5);
    for (index r = 0; r < 3; ++r) {
        for (index c = 0; c < 5; ++c) {
            CHECK(map(r, c) == view(r, c));
        }
    }
    map(2, 4) = 99.0F;
    CHECK(view(2, 4) == 99.0F);
    CHECK(memory[0] == -1.0F);
    CHECK(memory[6] == -1.0F);  // between the rows
    const matrix_view<const float> read_only = view;
    CHECK(interop::as_eigen(read_only).sum() == doctest::Approx(map.sum()));
    CHECK(interop::as_eigen(view.columns(1, 2)).cols() == 2);
    CHECK(interop::as_eigen(view.columns(1, 2))(1, 0) == 11.0F);
}

TEST_CASE("an Eigen matrix is seen as rows") {
    row_major matrix(2, 3);
    matrix << 1, 2, 3, 4, 5, 6;
    const matrix_view<float> view = interop::as_view(matrix);
    CHECK(view.rows() == 2);
    CHECK(view.cols() == 3);
    CHECK(view(1, 0) == 4.0F);
    view(0, 2) = 7.0F;
    CHECK(matrix(0, 2) == 7.0F);
    const row_major& constant = matrix;
    CHECK(interop::as_view(constant)(0, 2) == 7.0F);
}

}  // namespace
}  // namespace dflash::test
