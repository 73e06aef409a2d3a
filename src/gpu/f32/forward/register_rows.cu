// register_rows: unrolled_tiles with the rows' output in registers.
//
// Idea      What only one thread uses needs no memory: a lane's columns of the running output and of the totals stay
//           in registers for all keys. Nothing is stored in between any more, so the compiler takes four weights, like
//           four floats of q, in one load.
// Who       As in unrolled_tiles; 32 query rows a block for every D.
// Memory    Q 32 x D, one chunk of K or V 32 x 33, weights 32 x 32: 12.1 KiB for D = 32, 16.1 for 64, 24.1 for 128,
//           40.1 for 256. 58 to 64 registers; 1024 threads can have no more.
// Order     As in shared_tiles.
// Limits    5 shared loads for 4 fma. At a load a clock and multiprocessor that alone bounds it at a fifth of what the
//           fma units do.
#include "src/gpu/f32/forward/register_rows.h"

#include "src/gpu/device/check.h"
#include "src/gpu/f32/forward/kernels.h"
#include "src/gpu/f32/forward/row_tiles.cuh"

namespace hw4::gpu {

void launch_register_rows(const Launch& launch, cudaStream_t stream) {
    launch_row_tiles<RegisterRows>(launch, stream);
    HW4_CUDA_LAUNCHED("register_rows");
}

} // namespace hw4::gpu
