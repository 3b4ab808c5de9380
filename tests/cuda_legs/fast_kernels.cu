// The kernels of the fast backend. Its sums are not in the exact order, so that they are not held to exact arithmetic.
#include <dflash/cuda/fast.hpp>
#include <dflash/model/draft_transformer.hpp>

namespace dflash {

template class draft_transformer<cuda::fast>;

}  // namespace dflash
