// Seconds between two events around what is started in a stream.
#pragma once

#include "src/gpu/device/memory.h"

namespace hw4::gpu {

class EventTimer {
public:
    EventTimer() : start_(make_event()), stop_(make_event()) {}

    // Until what `begin` starts in the stream is done.
    template <class Begin>
    double seconds_of(cudaStream_t stream, const Begin& begin) const {
        HW4_CUDA(cudaEventRecord(start_.get(), stream));
        begin();
        HW4_CUDA(cudaEventRecord(stop_.get(), stream));
        HW4_CUDA(cudaEventSynchronize(stop_.get()));
        float milliseconds = 0;
        HW4_CUDA(cudaEventElapsedTime(&milliseconds, start_.get(), stop_.get()));
        return milliseconds * 1e-3;
    }

private:
    Event start_;
    Event stop_;
};

} // namespace hw4::gpu
