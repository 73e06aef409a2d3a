// The options that hw4 and seq share: the case, its mask, its operation, its files.
#pragma once

#include <string>
#include <vector>

#include "src/base/command_line.h"
#include "src/contracts/contract.h"

namespace hw4 {

struct CaseNames {
    std::string input;
    std::string output;
};

// A case of NumPy arrays, one file for each operand.
struct ArrayNames {
    // In the order of the operations' operands; empty names were not given.
    std::vector<std::string> in = std::vector<std::string>(kMostInputs);   // --q, --k, --v, --do
    std::vector<std::string> out = std::vector<std::string>(kMostOutputs); // --dq, --dk, --dv

    bool given() const { return !inputs().empty() || !gradients().empty(); }
    std::vector<std::string> inputs() const;
    // Empty where one file gets all gradients.
    std::vector<std::string> gradients() const;
};

struct CaseOptions {
    bool causal = false;                  // overrides the header
    int64_t window = 0;                   // 0: from the header
    double scale = 0;                     // 0: from the header
    const Operation* operation = nullptr; // from an option; null: from the header
    std::string lse;                      // file name; empty: none
    ArrayNames arrays;                    // replace the input of the only case

    // The options of a case, which set the fields above and `contract`.
    std::vector<CommandOption> options(const Contract*& contract);
    // The cases named by the words that are not options: arrays form one case, and `input` is the list of their names.
    // Throws Error (usage).
    std::vector<CaseNames> cases_of(const std::vector<std::string>& words);
    // Throws Error (usage) where the contract lacks the requested operation.
    void refuse_what_lacks(const Contract& contract) const;

    // The files of a case: one for all operands, or one for each.
    std::vector<std::string> inputs_of(const CaseNames& names) const;
    std::vector<std::string> outputs_of(const CaseNames& names) const;

private:
    std::string why_no_arrays(size_t words) const;
};

// "f32.forward/1 f32.backward/1 ... bf16.step/1": for --version.
std::string contract_revisions();

// Throws Error (usage): more than one of the outputs is "-".
void refuse_sharing_standard_output(const std::vector<std::string>& outputs);

// The value of an option that is a name. An empty value comes from an unset shell variable, and would otherwise count
// as no option. Throws Error (usage).
std::string parse_name(const char* option, const std::string& name);

} // namespace hw4
