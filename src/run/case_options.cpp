#include "src/run/case_options.h"

#include <algorithm>
#include <iterator>

#include "src/base/numbers.h"
#include "src/base/standard_streams.h"
#include "src/contracts/scale.h"
#include "src/step/configuration.h"

namespace hw4 {
namespace {

// In the order of the operations' operands.
constexpr const char* kArrayOptions[kMostInputs + kMostOutputs] = {"q", "k", "v", "do", "dq", "dk", "dv"};

std::vector<std::string> given_of(const std::vector<std::string>& names) {
    std::vector<std::string> found;
    std::copy_if(names.begin(), names.end(), std::back_inserter(found), [](const auto& name) { return !name.empty(); });
    return found;
}

std::string joined(const std::vector<std::string>& names) {
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    return list;
}

int64_t parse_window(const char* text) {
    const auto window = whole_number(text, 1, kNoWindow);
    if (!window) refuse_value("window", text, "a whole number from 1 to " + std::to_string(kNoWindow));
    return *window;
}

double parse_scale(const char* text) {
    const auto scale = decimal_number(text, kLeastScale, kMostScale);
    if (!scale) refuse_value("scale", text, "a number from 2^-100 to 2^100");
    return *scale;
}

std::string got(size_t words) { return ", got " + std::to_string(words) + (words == 1 ? " name" : " names"); }

} // namespace

std::vector<std::string> ArrayNames::inputs() const { return given_of(in); }
std::vector<std::string> ArrayNames::gradients() const { return given_of(out); }

std::string parse_name(const char* option, const std::string& name) {
    if (name.empty()) refuse_value(option, name, "a name");
    return name;
}

std::vector<CommandOption> CaseOptions::options(const Contract*& contract) {
    std::vector<CommandOption> list = {
        {"contract", required_argument,
         [&contract](const char* value) {
             contract = find_contract(value);
             if (contract == nullptr) usage_error(unknown_contract(value));
         }},
        flag("causal", causal),
        {"window", required_argument, [this](const char* value) { window = parse_window(value); }},
        {"scale", required_argument, [this](const char* value) { scale = parse_scale(value); }},
        {"backward", no_argument, [this](const char*) { operation = &kBackward; }},
        {"lse", required_argument, [this](const char* value) { lse = parse_name("lse", value); }}};
    for (size_t i = 0; i < std::size(kArrayOptions); ++i) {
        std::string& file = i < kMostInputs ? arrays.in[i] : arrays.out[i - kMostInputs];
        list.push_back({kArrayOptions[i], required_argument,
                        [i, &file](const char* value) { file = parse_name(kArrayOptions[i], value); }});
    }
    return list;
}

std::string CaseOptions::why_no_arrays(size_t words) const {
    if (arrays.in[0].empty() || arrays.in[1].empty() || arrays.in[2].empty()) return "need all of --q, --k and --v";
    const size_t gradient_files = arrays.gradients().size();
    if (gradient_files != 0 && gradient_files != arrays.out.size()) return "need all of --dq, --dk and --dv, or none";
    if (arrays.in[3].empty() && (operation == &kBackward || gradient_files > 0))
        return std::string(operation == &kBackward ? "--backward" : "--dq, --dk and --dv") + " of arrays: need --do";
    const size_t wanted = gradient_files > 0 ? 0 : 1;
    if (words == wanted) return "";
    return (wanted == 0 ? "--dq, --dk and --dv are the output: need no other name"
                        : "--q, --k and --v are the input: need OUTPUT alone") +
           got(words);
}

std::vector<CaseNames> CaseOptions::cases_of(const std::vector<std::string>& words) {
    std::vector<CaseNames> cases;
    if (arrays.given()) {
        const std::string why_not = why_no_arrays(words.size());
        if (!why_not.empty()) usage_error(why_not);
        cases.push_back({joined(arrays.inputs()), words.empty() ? "" : words.front()});
        if (!arrays.in[3].empty()) operation = &kBackward;
    } else if (words.empty() || words.size() % 2 != 0)
        usage_error("need INPUT and OUTPUT" + got(words.size()));
    else
        for (size_t i = 0; i < words.size(); i += 2) cases.push_back({words[i], words[i + 1]});
    return cases;
}

void CaseOptions::refuse_what_lacks(const Contract& contract) const {
    if (operation != nullptr && contract.find(*operation) == nullptr)
        usage_error("--" + std::string(operation->name) + ": the contract " + contract.name + " lacks it");
}

std::vector<std::string> CaseOptions::inputs_of(const CaseNames& names) const {
    return arrays.given() ? arrays.inputs() : std::vector{names.input};
}

std::vector<std::string> CaseOptions::outputs_of(const CaseNames& names) const {
    return arrays.gradients().empty() ? std::vector{names.output} : arrays.gradients();
}

std::string contract_revisions() {
    std::string revisions;
    for (const Contract* contract : contracts())
        for (const Computed& computed : contract->computes)
            revisions += (revisions.empty() ? "" : " ") + contract->revision_of(*computed.operation);
    for (const Contract* contract : step::kStepContracts) revisions += " " + step::step_revision(*contract);
    return revisions;
}

void refuse_sharing_standard_output(const std::vector<std::string>& outputs) {
    if (std::count_if(outputs.begin(), outputs.end(), is_standard_stream) > 1)
        usage_error("only one output can be '-', standard output");
}

} // namespace hw4
