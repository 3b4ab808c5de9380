// A user's program that needs the core alone. Neither Eigen nor JSON may be needed to compile it.
#include <dflash/vocabulary.hpp>

int main() {
    float numbers[4] = {1.0F, 2.0F, 3.0F, 4.0F};
    const dflash::matrix_view<const float> view(numbers, 2, 2);
    return view.row(1)[1] == 4.0F && dflash::size_of(dflash::dtype::bf16) == 2 ? 0 : 1;
}
