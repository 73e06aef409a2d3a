// The GPU calls of a library that was built without CUDA.
#include "src/base/error.h"
#include "src/library/call.h"

namespace hw4::library::on_device {

void require_gpu() { throw Error(ExitCode::no_gpu, "libhw4 was built without CUDA"); }
Needs plan(const Call&) {
    require_gpu();
    return {};
}
void run(const Call&) { require_gpu(); }
void check(const Call&) { require_gpu(); }
void append(const Append&, void*) { require_gpu(); }

} // namespace hw4::library::on_device
