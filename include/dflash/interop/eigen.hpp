// matrix_view <-> Eigen::Map, without copies. For users who have Eigen; the core does not include this.
//
// Rows stay rows: the maps are row-major with an outer stride. Arithmetic done through Eigen follows Eigen's order of
// operations, not the library's.
#pragma once

#include <type_traits>

#include <Eigen/Core>
#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

namespace interop {

/// Eigen's view of host rows of T.
template <class T>
using eigen_map = Eigen::Map<
    std::conditional_t<std::is_const_v<T>,
                       const Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>,
                       Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>,
    Eigen::Unaligned, Eigen::OuterStride<>>;

/// The same rows, seen by Eigen. Shape (rows, cols).
template <class T>
[[nodiscard]] eigen_map<T> as_eigen(matrix_view<T> view) {
    return eigen_map<T>(view.data(), view.rows(), view.cols(), Eigen::OuterStride<>(view.stride()));
}

/// A row-major Eigen matrix (or a map of one), seen as rows. The matrix must outlive the view.
template <class Derived>
[[nodiscard]] auto as_view(Eigen::PlainObjectBase<Derived>& matrix) {
    static_assert(Derived::IsRowMajor != 0, "as_view: the matrix must be row-major; its rows must be contiguous");
    return matrix_view<typename Derived::Scalar>(matrix.data(), matrix.rows(), matrix.cols(), matrix.outerStride());
}

template <class Derived>
[[nodiscard]] auto as_view(const Eigen::PlainObjectBase<Derived>& matrix) {
    static_assert(Derived::IsRowMajor != 0, "as_view: the matrix must be row-major; its rows must be contiguous");
    return matrix_view<const typename Derived::Scalar>(matrix.data(), matrix.rows(), matrix.cols(),
                                                       matrix.outerStride());
}

}  // namespace interop

DFLASH_END_NAMESPACE
