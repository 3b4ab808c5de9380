// expect: as_view: the matrix must be row-major
#include <dflash/interop/eigen.hpp>

int main() {
#if defined(DFLASH_CONTROL)
    Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> matrix(2, 2);
#else
    Eigen::MatrixXf matrix(2, 2);
#endif
    matrix.setZero();
    return static_cast<int>(dflash::interop::as_view(matrix)(0, 0));
}
