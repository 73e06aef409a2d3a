// A case whose operands are arrays of NumPy, one file each, as options of hw4 and seq name them.
#pragma once

#include <string>
#include <vector>

#include "src/problem/operation.h"

namespace hw4 {

struct ArrayNames {
    // In the order of the operations' operands; empty names were not given.
    std::vector<std::string> in = std::vector<std::string>(kMostInputs);   // --q, --k, --v, --do
    std::vector<std::string> out = std::vector<std::string>(kMostOutputs); // --dq, --dk, --dv

    // Codes for getopt_long().
    enum Code : int { kQ = 1000, kK, kV, kDo, kDq, kDk, kDv };
    // Keeps the value of the option if it is one of these. Throws Error (usage): it is empty.
    bool take(int code, const char* value);

    bool given() const { return !named(in).empty() || !named(out).empty(); }
    std::vector<std::string> inputs() const { return named(in); }
    // None where all gradients go into one file.
    std::vector<std::string> gradients() const { return named(out); }
    // "q.npy, k.npy, v.npy"
    std::string input() const;

    // Why they are no case of the operation that is asked for, beside so many words that are no options; empty: they
    // are one.
    std::string why_not(size_t words, const Operation* asked) const;

private:
    static std::vector<std::string> named(const std::vector<std::string>& names);
};

} // namespace hw4
