// Runs a kernel on a case with every float outside the input poisoned: the padding of both pitches, the output, scratch
// memory. A NaN that the kernel reads, or an element that it does not write, shows in the bytes; except where a kernel
// of the contract fixed reads a column beyond d, because a NaN has the digits of some number.
//
// HW4_POISON=0 leaves all this memory unwritten, for initcheck, which finds every read of it. It finds reads of columns
// beyond d only where rows are few: many rows are packed, without such columns, since initcheck takes 3 ms for each row
// of a two-dimensional copy.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "src/gpu/device/memory.h"
#include "src/gpu/kernels.h"
#include "tests/support/attention_case.h"

namespace hw4::gpu {

inline bool poisons() {
    const char* const wanted = std::getenv("HW4_POISON");
    return wanted == nullptr || wanted != std::string("0");
}

inline void poison(void* memory, size_t bytes, cudaStream_t stream) {
    if (bytes > 0 && poisons()) HW4_CUDA(cudaMemsetAsync(memory, 0xff, bytes, stream));
}

inline Copies copies_of(size_t rows) {
    constexpr size_t kManyRows = 5000; // 15 s in initcheck
    return poisons() || rows < kManyRows ? Copies::two_d : Copies::linear;
}

// A launch of the kernel as a function, for the functions below.
inline auto launcher_of(const Kernel& kernel) {
    return [kernel](const Launch& launch, cudaStream_t stream) { kernel.launch(launch, stream); };
}

// Memory of this many bytes. Launches keep it for the next ones, since an allocation waits for the contexts of other
// processes; except in tests for compute-sanitizer, which notices access beyond an allocation.
class DeviceMemory {
public:
    void* of(size_t bytes) {
        const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
        const bool exact = test.rfind("Sanitizer", 0) == 0;
        if (exact || bytes > bytes_) {
            *this = DeviceMemory(); // frees first
            const size_t taken = exact ? bytes : std::max(bytes, size_t{16} << 20);
            memory_ = make_scratch(taken);
            bytes_ = taken;
        }
        return bytes == 0 ? nullptr : memory_.get();
    }

private:
    Scratch memory_;
    size_t bytes_ = 0;
};

struct LaunchMemory {
    DeviceMemory in, out, scratch, statistics;
    Stream stream = make_stream();
};
inline LaunchMemory& launch_memory() {
    thread_local LaunchMemory kept;
    return kept;
}

// run(launch, stream) starts the computation. It computes the statistics of all rows where `statistics` is not null.
template <class Run>
std::vector<float> attend_poisoned(const Problem& problem, const std::vector<float>& values, size_t scratch_bytes,
                                   Run run, std::vector<RowStatistics>* statistics = nullptr) {
    LaunchMemory& kept = launch_memory();
    const cudaStream_t stream = kept.stream.get();
    const auto in_rows = static_cast<size_t>(problem.input_rows());
    const auto out_rows = static_cast<size_t>(problem.output_rows());
    constexpr size_t kPitch = 512; // cudaMallocPitch's
    const Copies copies = copies_of(in_rows);
    const size_t row_bytes = static_cast<size_t>(problem.dim) * sizeof(float);
    const size_t pitch = copies == Copies::linear ? row_bytes : (row_bytes + kPitch - 1) / kPitch * kPitch;
    const auto poisoned = [&](DeviceMemory& memory, size_t bytes) {
        void* const data = memory.of(bytes);
        poison(data, bytes, stream);
        return data;
    };
    const PitchedRows in(poisoned(kept.in, in_rows * pitch), row_bytes, pitch, copies);
    const PitchedRows out(poisoned(kept.out, out_rows * pitch), row_bytes, pitch, copies);
    in.copy_in(values.data(), in_rows, stream);
    void* const scratch = poisoned(kept.scratch, scratch_bytes);
    const size_t statistics_bytes = statistics == nullptr ? 0 : out_rows * sizeof(RowStatistics);
    void* const rows = poisoned(kept.statistics, statistics_bytes);
    const size_t stride = pitch / sizeof(float);
    Launch launch = launch_of(problem, current_device(), in.row(0), stride, out.row(0), stride, scratch, scratch_bytes);
    launch.statistics = static_cast<RowStatistics*>(rows);
    run(launch, stream);
    std::vector<float> result(problem.floats_in(problem.output_rows()));
    out.copy_out(result.data(), out_rows, stream);
    if (statistics != nullptr) {
        statistics->resize(out_rows);
        HW4_CUDA(cudaMemcpyAsync(statistics->data(), rows, statistics_bytes, cudaMemcpyDeviceToHost, stream));
    }
    HW4_CUDA(cudaStreamSynchronize(stream));
    return result;
}

// ---- On a case

template <class Run>
std::vector<float> attend(const AttentionCase& test, size_t scratch_bytes, Run run) {
    return attend_poisoned(test.problem, test.qkv, scratch_bytes, run);
}

inline std::vector<float> attend(const Kernel& kernel, const AttentionCase& test) {
    return attend(test, plan_of(kernel, test.problem, current_device()).scratch_bytes, launcher_of(kernel));
}

// Runs the kernel as several launches, each of some query rows of every unit.
inline auto in_query_steps(const Kernel& kernel) {
    return [launch_some = launcher_of(kernel)](Launch launch, cudaStream_t stream) {
        for (; launch.first_query < launch.problem.queries; launch.first_query = launch.end_query) {
            launch.end_query = launch.first_query + kQueryStep;
            launch_some(launch, stream);
        }
    };
}

// The same with the statistics of all rows, which must equal the reference's.
template <class Run>
std::vector<float> attend_with_statistics(const AttentionCase& test, size_t scratch_bytes, Run run) {
    std::vector<RowStatistics> statistics;
    std::vector<float> out = attend_poisoned(test.problem, test.qkv, scratch_bytes, run, &statistics);
    EXPECT_TRUE(same_statistics(test.statistics, statistics)) << test.name;
    return out;
}

} // namespace hw4::gpu
