// What both engines, CPU and GPU, share: what they are asked, and what they tell about a run.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "case_file.h"
#include "copies.h"
#include "output_file.h"

namespace hw4 {

struct KernelInfo {
    std::string name;
    std::string idea;
};

// Seconds in which each stage was busy. On the GPU stages overlap, so they may add up to more than the total.
struct StageSeconds {
    double context = 0; // making the CUDA context, buffers and streams
    double read = 0;    // reading and checking the input
    double copy_in = 0;
    double kernel = 0;
    double copy_out = 0;
    double write = 0;
};

struct RunReport {
    std::string device;      // "gpu" or "cpu"
    std::string device_name; // "NVIDIA H200", "2 threads"
    std::string kernel;
    int streams = 0;             // 0 on the CPU
    std::string copies = "none"; // "2d" or "linear"; "none" on the CPU
    int threads = 0;             // 0 on the GPU
    int64_t chunk_batches = 0;
    StageSeconds seconds;
};

struct EngineOptions {
    std::string kernel; // empty: the engine chooses
    int streams = 4;
    Copies copies = Copies::two_d;
    int threads = 0;           // 0: as many as the machine offers
    int64_t chunk_batches = 0; // 0: chosen from the problem
};

// Adds the time until the end of its scope to a stage.
class StageTimer {
public:
    explicit StageTimer(double& seconds) : seconds_(seconds), start_(Clock::now()) {}
    ~StageTimer() { seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
    StageTimer(const StageTimer&) = delete;
    StageTimer& operator=(const StageTimer&) = delete;

private:
    using Clock = std::chrono::steady_clock;
    double& seconds_;
    Clock::time_point start_;
};

// How many batches to handle at a time: enough that fixed costs vanish, few enough that memory stays small and
// that there are `parts` chunks to handle at once.
int64_t chunk_batches_for(const Shape& shape, int parts);

// The next batches of the file, checked against the contract's domain.
void read_checked(CaseReader& input, int64_t first_batch, int64_t count, float* to);

} // namespace hw4
