// A kernel's launches on a case that is on the GPU, timed by CUDA events.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/bench/event_timer.h"
#include "src/bench/sampling.h"
#include "src/gpu/device/check.h"
#include "src/gpu/device/memory.h"
#include "src/gpu/kernels.h"
#include "src/gpu/slot_plan.h"
#include "src/io/case_values.h"

namespace hw4::gpu {

// Rows of a problem's element on the GPU: floats in pitched memory as in hw4, 16-bit numbers packed as in a tensor.
class RowsOnGpu {
public:
    RowsOnGpu(const Problem& problem, int64_t rows)
        : row_bytes_(problem.stored_row_bytes()),
          copies_(problem.element == Element::float32 ? Copies::two_d : Copies::linear),
          pitch_bytes_(row_pitch(problem, copies_)), element_(problem.element),
          memory_(make_scratch(static_cast<size_t>(rows) * pitch_bytes_)) {}

    void* data() const { return memory_.get(); }
    size_t stride() const { return pitch_bytes_ / bytes_of(element_); } // elements from one row to the next
    PitchedRows rows() const { return PitchedRows(data(), row_bytes_, pitch_bytes_, copies_); }

private:
    size_t row_bytes_;
    Copies copies_;
    size_t pitch_bytes_;
    Element element_;
    Scratch memory_;
};

// A case on the GPU: the data that `generate --seed 1` writes.
struct CaseOnGpu {
    Problem problem;
    Device device;
    RowsOnGpu in;
    RowsOnGpu out;

    CaseOnGpu(const Problem& p, const Device& card, const Distribution& distribution = CaseKind::uniform)
        : problem(p), device(card), in(p, p.input_rows()), out(p, p.output_rows()) {
        std::vector<float> values(p.floats_in(p.input_rows()));
        fill_in_parallel({p, distribution, 1}, 0, values.size(), values.data());
        if (p.element != Element::float32) narrow(p.element, values.data(), values.size(), values.data());
        in.rows().copy_in(values.data(), static_cast<size_t>(p.input_rows()), nullptr);
        HW4_CUDA(cudaDeviceSynchronize());
    }

    size_t output_rows() const { return static_cast<size_t>(problem.output_rows()); }

    Launch launch(const Scratch& scratch, size_t scratch_bytes = 0) const {
        return launch_of(problem, device, in.data(), in.stride(), out.data(), out.stride(), scratch.get(),
                         scratch_bytes);
    }
};

// What backward needs of forward, computed once for a case of backward.
class ForwardOnGpu {
public:
    ForwardOnGpu(const CaseOnGpu& on_gpu, const Contract& contract)
        : problem_(on_gpu.problem.of_operation(kForward)), out_(problem_, problem_.output_rows()),
          statistics_(make_scratch(static_cast<size_t>(problem_.output_rows()) * sizeof(RowStatistics))) {
        const Kernel& kernel = *choose_kernel(problem_, on_gpu.device, contract);
        const size_t scratch_bytes = plan_of(kernel, problem_, on_gpu.device).scratch_bytes;
        const Scratch scratch = make_scratch(scratch_bytes);
        Launch launch = on_gpu.launch(scratch, scratch_bytes);
        launch.problem = problem_;
        launch.out[0] = tensor_at(problem_, kForward.outputs, 0, out_.data(), out_.stride());
        launch.statistics = static_cast<RowStatistics*>(statistics_.get());
        kernel.launch(launch, nullptr);
        HW4_CUDA(cudaDeviceSynchronize());
    }

    Launch given_to(Launch launch) const {
        launch.forward_out = tensor_at(problem_, kForward.outputs, 0, out_.data(), out_.stride());
        launch.statistics = static_cast<RowStatistics*>(statistics_.get());
        return launch;
    }

private:
    Problem problem_;
    RowsOnGpu out_;
    Scratch statistics_;
};

class LaunchTimer {
public:
    using Launcher = std::function<void(const Launch& launch, cudaStream_t stream)>;

    LaunchTimer(Launcher launcher, size_t scratch_bytes, const CaseOnGpu& on_gpu, const ForwardOnGpu* forward = nullptr)
        : launcher_(std::move(launcher)), scratch_(make_scratch(scratch_bytes)),
          launch_(on_gpu.launch(scratch_, scratch_bytes)), stream_(make_stream()) {
        if (forward != nullptr) launch_ = forward->given_to(launch_);
    }

    // Seconds of each of so many launches, back to back.
    double sample(int launches) const {
        const auto begin = [&] {
            for (int i = 0; i < launches; ++i) launcher_(launch_, stream_.get());
        };
        return timer_.seconds_of(stream_.get(), begin) / launches;
    }

    // By the rules of sampling.h, after the warm-up.
    Timing samples(const SampleRequest& request) const {
        const double launch_seconds = warm_up([&](int launches) { return sample(launches); });
        Timing timing{request.launches > 0 ? request.launches : launches_for(launch_seconds), {}};
        const int runs = runs_for(launch_seconds * timing.launches, request.runs);
        for (int run = 0; run < runs; ++run) timing.seconds.push_back(sample(timing.launches));
        return timing;
    }

private:
    Launcher launcher_;
    Scratch scratch_;
    Launch launch_;
    Stream stream_;
    EventTimer timer_;
};

// "device": "NVIDIA H200", "cuda": "13.0": the card, and the CUDA version of the build.
inline std::string machine_fields() {
    return "\"device\": \"" + device_name() + "\", \"cuda\": \"" + std::to_string(CUDART_VERSION / 1000) + "." +
           std::to_string(CUDART_VERSION % 1000 / 10) + "\"";
}

} // namespace hw4::gpu
