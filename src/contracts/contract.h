// The contracts, as rows of one list: the operations that each defines, its reference, the range of its numbers, and
// how its output is compared. Programs, judge, scripts (hw4 --list-kernels --json) and tests know contracts only from
// here.
#pragma once

#include <cstdint>
#include <string>

#include "src/contracts/row_statistics.h"
#include "src/problem/domain.h"
#include "src/problem/problem.h"

namespace hw4 {

// How an output is compared: either every engine gives the bytes of the reference; or the error against the exact
// values is within a bound measured for the case (testcases/bounds.tsv), and each engine has bytes of its own.
enum class Compared { bytes, bound };

// One unit of an operation. Its operands are in the operation's order, [rows][dim] each. An operation with outputs for
// keys takes all heads of queries that share them in one unit: rows of queries are [group][rows][dim].
struct UnitOperands {
    int64_t queries = 0;
    int64_t keys = 0;
    int64_t dim = 0;
    const float* in[kMostInputs] = {};
    float* out[kMostOutputs] = {};
    Mask mask = Mask::none;
    RowStatistics* statistics = nullptr; // [queries]; null: not wanted
    int64_t group = 1;                   // heads of queries
    double scale = 0;                    // 0: 1/sqrt(dim)
    int64_t window = 0;                  // 0: none
    int64_t key_columns = 0;             // d, which sets the scale; 0: dim

    int64_t key_dim() const { return key_columns == 0 ? dim : key_columns; }
    int64_t visible(int64_t query) const { return visible_keys(mask, queries, keys, query); }
    int64_t first_visible(int64_t query) const { return sight_of(mask, queries, keys, window).from(query); }
    RowStatistics* statistics_of(int64_t query) const { return statistics == nullptr ? nullptr : statistics + query; }
};

// The sequential references, one thread and plain loops.
void f32_forward(const UnitOperands& unit);
void f32_backward(const UnitOperands& unit);
void fixed_forward(const UnitOperands& unit);
void fixed16_forward(const UnitOperands& unit);
void bf16_forward(const UnitOperands& unit);
void bf16_backward(const UnitOperands& unit);
void fp16_forward(const UnitOperands& unit);
void fp16_backward(const UnitOperands& unit);

// An operation under a contract.
struct Computed {
    const Operation* operation;
    int revision; // changes when the bytes do
    List<Mask> masks;
    void (*reference)(const UnitOperands& unit); // one thread and plain loops
    double one = 0;          // what a weight of 1 adds to the l of a row's statistics; 0: rows have no statistics
    bool by_lengths = false; // also problems by lengths
    bool windows = false;    // also problems with a window
    bool pads = false;       // also problems with d_v other than d
};

// The scales that the contract takes.
struct Scales {
    double least;
    double most;
};

struct Contract {
    const char* name;
    const char* idea;
    Compared compared;
    Element element;      // of the products' operands and of the output; float32 takes files of any element
    int64_t most_columns; // 0: any number
    Scales scales;
    Domain domain;
    List<Computed> computes;

    // Null if the contract does not define the operation.
    const Computed* find(const Operation& operation) const;
    // "f32.forward/1"
    std::string revision_of(const Operation& operation) const;
};

extern const Contract kF32;
extern const Contract kFixed;
extern const Contract kFixed16;
extern const Contract kBf16;
extern const Contract kFp16;

inline const char* name_of(const Contract* contract) { return contract->name; }

using Contracts = List<const Contract*>;
Contracts contracts();

// Null if there is no contract of that name.
const Contract* find_contract(const std::string& name, const Contracts& list = contracts());

// "f32, fixed, fixed16, bf16 or fp16"
std::string contract_names(const Contracts& list = contracts());

// The message for --contract NAME if there is no such contract.
std::string unknown_contract(const std::string& name);

// Why the contract cannot compute the problem, for a line that begins with the file's name; empty if it can.
std::string why_not(const Contract& contract, const Problem& problem);

// Why rows of the problem have no statistics, for the same kind of line.
std::string why_no_statistics(const Contract& contract, const Problem& problem);

// Whether an output may become infinite when it is rounded to 16 bits, for the contract (only gradients, since O is no
// larger than V) or for the file.
bool outputs_may_overflow(const Contract& contract, const Problem& problem);

// Throws Error (bad_data) if one of the outputs, as stored, is infinite. `path` is the input's.
void refuse_infinite(const Contract& contract, const Problem& problem, const std::string& path, const void* outputs,
                     size_t count);

// Computes all units of the problem with the contract's reference. The operands follow one another as in the file;
// statistics, if wanted, are [unit][query]. `lengths`: the keys of each batch, for a problem by lengths.
void compute_by_reference(const Contract& contract, const Problem& problem, const float* in, float* out,
                          RowStatistics* statistics = nullptr, const int32_t* lengths = nullptr);

// The logsumexp of rows from their statistics, under a contract that has statistics for the problem.
void logsumexps(const Contract& contract, const Problem& problem, const RowStatistics* rows, int64_t count, float* to);

} // namespace hw4
