// A call of the library (include/hw4.h) in the project's own types, and its two implementations.
#pragma once

#include "include/hw4.h"
#include "src/contracts/append.h"
#include "src/contracts/contract.h"
#include "src/problem/tensor.h"

namespace hw4::library {

struct Call {
    const Contract* contract = nullptr;
    const char* kernel = nullptr; // null: the fastest
    Problem problem;
    const int32_t* lengths = nullptr; // the call's array; null unless the problem is by lengths
    PageTable pages;                  // for a problem by pages
    Tensor in[kMostInputs];           // in the operation's order
    Tensor out[kMostOutputs];
    Tensor forward_out; // backward: O from an earlier forward call; no data: forward is computed again
    RowStatistics* statistics = nullptr;
    float* lse = nullptr;
    void* workspace = nullptr;
    size_t workspace_bytes = 0;
    void* stream = nullptr;
    int threads = 0;

    // For lengths on the host.
    int64_t keys_of(int64_t batch) const { return lengths == nullptr ? problem.keys : lengths[batch]; }
    // A row of an operand.
    void* row_of(const Operand& operand, const Tensor& tensor, int64_t batch, int64_t head, int64_t row) const {
        if (!problem.by_pages || operand.rows != Rows::of_keys) return tensor.at(batch, head, row);
        return tensor.at(pages.page_of(batch, row), head, row % pages.keys);
    }
    size_t query_rows() const { return static_cast<size_t>(problem.units() * problem.queries); }
};

// A call of hw4_append(), checked. Throws Error.
Append checked(const hw4_append_call& call);

enum class Pointers { none, inputs, all }; // the pointers that a function follows

// Checks everything except what depends on the kernel. Throws Error.
Call checked(const hw4_call& call, Pointers followed);

// Throws Error (bad_data) where a batch has no keys, or more than its capacity.
void require_lengths(const Problem& problem, const int32_t* lengths);

// Throws Error (bad_data) where a page that contains any of a batch's last `last_keys` keys does not exist.
void require_pages(const PageTable& pages, int64_t batches, const int32_t* lengths, int64_t last_keys);

// Throws Error (usage) where the caller's workspace is too small or not aligned.
void require_workspace(const Call& call, size_t bytes);

struct Needs {
    size_t workspace_bytes = 0;
    size_t most_workspace = 0;
    size_t check_bytes = 0;
    const char* kernel = "";
};

// All throw Error.
namespace on_host {
Needs plan(const Call& call);
void run(const Call& call);
void check(const Call& call);
void append(const Append& rows);
} // namespace on_host

namespace on_device {
void require_gpu();
Needs plan(const Call& call);
void run(const Call& call);
void check(const Call& call);
void append(const Append& rows, void* stream);
} // namespace on_device

// Messages about values begin with this instead of a file's name.
constexpr const char* kInputs = "attention";

} // namespace hw4::library
