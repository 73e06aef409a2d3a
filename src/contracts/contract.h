// The contracts a case can be computed under, as rows of one list: what each computes, by which reference, for which
// numbers, and how its output is compared. The programs, the judge and the scripts (hw4 --list-kernels --json) and the
// tests know contracts from here alone.
#pragma once

#include <cstdint>
#include <string>

#include "src/contracts/row_statistics.h"
#include "src/problem/domain.h"
#include "src/problem/problem.h"

namespace hw4 {

// How an output is compared: it has the bytes of the reference on every engine; or it is as near to the exact values as
// a bound says that is measured for the case (testcases/bounds.tsv), and each engine has bytes of its own.
enum class Compared { bytes, bound };

// One unit of an operation, its operands in the operation's order, [rows][dim] each. An operation that gives something
// for keys has all heads of queries that share them in a unit: what has rows of queries is [group][rows][dim] then.
struct UnitOperands {
    int64_t queries = 0;
    int64_t keys = 0;
    int64_t dim = 0;
    const float* in[kMostInputs] = {};
    float* out[kMostOutputs] = {};
    Mask mask = Mask::none;
    RowStatistics* statistics = nullptr; // [queries]; null: nobody asks for them
    int64_t group = 1;                   // heads of queries
    double scale = 0;                    // 0: 1/sqrt(dim)
    int64_t window = 0;                  // 0: none
    int64_t key_columns = 0;             // d, which the scale is of; 0: dim

    int64_t key_dim() const { return key_columns == 0 ? dim : key_columns; }
    int64_t visible(int64_t query) const { return visible_keys(mask, queries, keys, query); }
    int64_t first_visible(int64_t query) const { return sight_of(mask, queries, keys, window).from(query); }
    RowStatistics* statistics_of(int64_t query) const { return statistics == nullptr ? nullptr : statistics + query; }
};

// The sequential references, one thread and plain loops, for the contracts' rows.
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
    double one = 0;          // what a weight of 1 counts in the l of a row's statistics; 0: rows have none
    bool by_lengths = false; // a problem by lengths, too
    bool windows = false;    // a problem with a window, too
    bool pads = false;       // a problem with d_v other than d, too
};

// Which scales it takes.
struct Scales {
    double least;
    double most;
};

struct Contract {
    const char* name;
    const char* idea;
    Compared compared;
    Element element;      // of the products' operands and of what is given; float32 takes files of any element
    int64_t most_columns; // 0: any number
    Scales scales;
    Domain domain;
    List<Computed> computes;

    // Null where it does not compute that.
    const Computed* find(const Operation& operation) const;
    // "f32.forward/1"
    std::string revision_of(const Operation& operation) const;
};

extern const Contract kF32;
extern const Contract kFixed;
extern const Contract kFixed16;
extern const Contract kBf16;
extern const Contract kFp16;

using Contracts = List<const Contract*>;
Contracts contracts();

// Null when there is none of that name.
const Contract* find_contract(const std::string& name, const Contracts& list = contracts());

// "f32, fixed, fixed16, bf16 or fp16"
std::string contract_names(const Contracts& list = contracts());

// What is wrong with --contract NAME where there is no such contract.
std::string unknown_contract(const std::string& name);

// Why the contract cannot compute that, for a line that begins with the file's name; empty when it can.
std::string why_not(const Contract& contract, const Problem& problem);

// Why its rows have no statistics, likewise.
std::string why_no_statistics(const Contract& contract, const Problem& problem);

// Whether an output may be infinite where it is rounded to 16 bits: by the contract, of gradients, since O is no larger
// than V; or for the file.
bool outputs_may_overflow(const Contract& contract, const Problem& problem);

// Throws Error (bad_data) where one of the outputs is, as they are stored. `path` is the input's.
void refuse_infinite(const Contract& contract, const Problem& problem, const std::string& path, const void* outputs,
                     size_t count);

// All units of the problem by the contract's reference. The operands follow one another as in the file, statistics as
// [unit][query] where they are asked for. `lengths`: the keys of each batch, of a problem by lengths.
void compute_by_reference(const Contract& contract, const Problem& problem, const float* in, float* out,
                          RowStatistics* statistics = nullptr, const int32_t* lengths = nullptr);

// The logsumexp of rows from their statistics, under a contract that has those of the problem.
void logsumexps(const Contract& contract, const Problem& problem, const RowStatistics* rows, int64_t count, float* to);

} // namespace hw4
