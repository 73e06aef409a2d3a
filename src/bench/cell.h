// A measurement: an implementation on a problem, with rules of timing. A sweep is a list of cells, and each row of
// results belongs to one.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>

#include "src/problem/element.h"
#include "src/problem/problem.h"
#include "src/run/engine.h"

namespace hw4::bench {

enum class Pass { forward, backward, forward_backward };
inline constexpr Pass kPasses[] = {Pass::forward, Pass::backward, Pass::forward_backward};
constexpr size_t kPassCount = 3;

inline constexpr Element kElements[] = {Element::float32, Element::fp16, Element::bf16};

enum class Timing { event, wall }; // the device's time of each sample; the host's clock around all launches

constexpr const char* name_of(Pass pass) {
    return pass == Pass::forward ? "forward" : pass == Pass::backward ? "backward" : "forward_backward";
}
constexpr const char* name_of(Timing timing) { return timing == Timing::event ? "event" : "wall"; }

// Limits of options.
constexpr int64_t kMostSize = int64_t{1} << 31;
constexpr int kMostRepeats = 1000000;
constexpr int kMostThreads = 1024;

// The operation with the inputs and outputs of a pass.
constexpr const Operation& operation_of(Pass pass) { return pass == Pass::forward ? kForward : kBackward; }

// The number of samples, and the clock.
struct Rules {
    static constexpr int kByTime = -1;

    int warmup = kByTime; // launches before the first sample; by time: for kWarmUpSeconds (sampling.h)
    int repeats = 30;     // samples
    double limit_s = 10;  // for the samples of a pass, which are at least kLeastRuns
    Timing timing = Timing::event;
    bool cold = false; // flush caches before each sample

    auto fields() const { return std::tie(warmup, repeats, limit_s, timing, cold); }
};

struct Cell {
    std::string impl;   // "naive" or a contract's name
    std::string kernel; // a specific kernel; empty: the implementation's choice
    Element element = Element::float32;
    int64_t batch_size = 32;
    int64_t seq_len = 1024;
    int64_t num_heads = 32;
    int64_t emb_dim = 2048; // all heads together
    int64_t kv_heads = 0;   // heads of K and V; 0: as many as num_heads
    int64_t queries = 0;    // of a decoding step, with seq_len keys; 0: as many as keys
    bool causal = false;
    bool passes[kPassCount] = {true, true, true};
    Rules rules;
    std::string device = "cpu"; // or "gpu"
    int threads = 0;            // on the CPU; 0: all
    std::string kind = "normal:1";
    int64_t memory_limit = 0;                                               // bytes; 0: all available
    int64_t scratch = static_cast<int64_t>(EngineOptions().scratch_budget); // on the GPU, to make it faster

    bool wants(Pass pass) const { return passes[static_cast<size_t>(pass)]; }
    bool decodes() const { return queries > 0; }
    bool heads_divide() const { return emb_dim % num_heads == 0; }
    int64_t key_heads() const { return kv_heads > 0 ? kv_heads : num_heads; }
    // The measured subject: a kernel requested by name, or else the implementation.
    const std::string& subject() const { return kernel.empty() ? impl : kernel; }
    // Whether both measure the same problem under the same rules, with their own subject and element.
    bool measures_as(const Cell& other) const {
        Cell like = other;
        like.impl = impl;
        like.kernel = kernel;
        like.element = element;
        return *this == like;
    }

    auto fields() const {
        return std::tie(impl, kernel, element, batch_size, seq_len, num_heads, emb_dim, kv_heads, queries, causal,
                        passes[0], passes[1], passes[2], device, threads, kind, memory_limit, scratch);
    }
    friend bool operator==(const Cell& a, const Cell& b) {
        return a.fields() == b.fields() && a.rules.fields() == b.rules.fields();
    }
};

// The cell's problem for the operation. The heads must divide the columns.
inline Problem problem_of(const Cell& cell, const Operation& operation) {
    Problem problem(cell.batch_size, cell.seq_len, cell.emb_dim / cell.num_heads);
    problem.heads = cell.num_heads;
    problem.kv_heads = cell.key_heads();
    if (cell.decodes()) problem.queries = cell.queries;
    problem.mask = cell.causal ? Mask::causal : Mask::none;
    problem.operation = &operation;
    problem.element = cell.element;
    return problem;
}

// As lab5.py counts FLOP: 4 * B * N^2 * H * d, half of it with the causal mask; 2.5 times that for backward. A decoding
// step sees nearly all keys even with a mask.
inline double flops_of(const Cell& cell, Pass pass) {
    const auto tokens = static_cast<double>(cell.seq_len);
    const int64_t head_columns = cell.emb_dim / cell.num_heads * cell.num_heads;
    const double queries = cell.decodes() ? static_cast<double>(cell.queries) : tokens;
    const double forward = 4.0 * static_cast<double>(cell.batch_size) * queries * tokens *
                           static_cast<double>(head_columns) / (cell.causal && !cell.decodes() ? 2 : 1);
    return forward * (pass == Pass::forward ? 1 : pass == Pass::backward ? 2.5 : 3.5);
}

// The bytes of K and V that a decoding step must read.
inline double cache_bytes_of(const Cell& cell) {
    return 2.0 * static_cast<double>(cell.batch_size * cell.key_heads()) * static_cast<double>(cell.seq_len) *
           static_cast<double>(cell.emb_dim / cell.num_heads) * static_cast<double>(bytes_of(cell.element));
}

// "8", or "8/2" where the second number is the heads of K and V
inline std::string heads_of(const Cell& cell) {
    const std::string heads = std::to_string(cell.num_heads);
    return cell.key_heads() == cell.num_heads ? heads : heads + "/" + std::to_string(cell.key_heads());
}
// "1024", or "1/1024" where the first number is the queries
inline std::string tokens_of(const Cell& cell) {
    const std::string tokens = std::to_string(cell.seq_len);
    return cell.decodes() ? std::to_string(cell.queries) + "/" + tokens : tokens;
}

// "naive fp16 B 8 H 1 N 4096 d 64 causal": distinguishes the cells of a sweep.
inline std::string words_of(const Cell& cell) {
    const auto number = [](const char* name, int64_t value) { return std::string(name) + std::to_string(value); };
    return cell.impl + (cell.kernel.empty() ? "" : " " + cell.kernel) +
           (cell.element == Element::float32 ? "" : std::string(" ") + name_of(cell.element)) +
           number(" B ", cell.batch_size) + " H " + heads_of(cell) + " N " + tokens_of(cell) +
           number(" d ", cell.emb_dim / cell.num_heads) + (cell.causal ? " causal" : "") +
           (cell.rules.warmup == Rules::kByTime ? "" : number(" warmup ", cell.rules.warmup));
}

} // namespace hw4::bench
