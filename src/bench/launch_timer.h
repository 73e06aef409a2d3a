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
#include "src/io/case_values.h"

namespace hw4::gpu {

// A case on the GPU: the data that `generate --seed 1` writes, in pitched memory as in hw4.
struct CaseOnGpu {
    Problem problem;
    Device device;
    PitchedMatrix in;
    PitchedMatrix out;

    CaseOnGpu(const Problem& p, const Device& card, const Distribution& distribution = CaseKind::uniform)
        : problem(p), device(card), in(input_rows(), static_cast<size_t>(p.dim)),
          out(output_rows(), static_cast<size_t>(p.dim)) {
        std::vector<float> values(p.floats_in(p.input_rows()));
        fill_in_parallel({p, distribution, 1}, 0, values.size(), values.data());
        in.copy_in(values.data(), input_rows(), nullptr);
        HW4_CUDA(cudaDeviceSynchronize());
    }

    size_t input_rows() const { return static_cast<size_t>(problem.input_rows()); }
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
        : problem_(on_gpu.problem.of_operation(kForward)), rows_(static_cast<size_t>(problem_.output_rows())),
          out_(rows_, static_cast<size_t>(problem_.dim)), statistics_(make_scratch(rows_ * sizeof(RowStatistics))) {
        const Kernel& kernel = *choose_kernel(problem_, on_gpu.device, contract);
        const size_t scratch_bytes = plan_of(kernel, problem_, on_gpu.device).scratch_bytes;
        const Scratch scratch = make_scratch(scratch_bytes);
        Launch launch = on_gpu.launch(scratch, scratch_bytes);
        launch.problem = problem_;
        launch.out[0] = operand_at(problem_, kForward.outputs, 0, out_.data(), out_.stride());
        launch.statistics = static_cast<RowStatistics*>(statistics_.get());
        kernel.launch(launch, nullptr);
        HW4_CUDA(cudaDeviceSynchronize());
    }

    Launch given_to(Launch launch) const {
        const float* const out = out_.data();
        launch.forward_out = operand_at(problem_, kForward.outputs, 0, out, out_.stride());
        launch.statistics = static_cast<RowStatistics*>(statistics_.get());
        return launch;
    }

private:
    Problem problem_;
    size_t rows_;
    PitchedMatrix out_;
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
