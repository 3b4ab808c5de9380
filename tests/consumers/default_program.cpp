// A user's program that computes with the backend chosen when the library was configured.
#include <array>

#include <dflash/default_backend.hpp>
#include <dflash/vocabulary.hpp>

int main() {
    constexpr std::array<float, 4> matrix = {1, 2, 3, 4};
    const std::array parts = {
        dflash::tensor_view{dflash::dtype::f32, reinterpret_cast<const std::byte*>(matrix.data()), 2, 2}};
    const std::array<float, 2> x = {10, 1};
    std::array<float, 2> y = {};
    const dflash::default_backend backend;
    backend.linear(dflash::matrix_view<const float>(x.data(), 1, 2), backend.pack(parts),
                   dflash::matrix_view<float>(y.data(), 1, 2));
    return y[0] == 12 && y[1] == 34 ? 0 : 1;
}
