#include "src/contracts/contract.h"

#include <cstdio>
#include <vector>

#include "src/base/command_line.h"
#include "src/base/error.h"
#include "src/contracts/logsumexp.h"
#include "src/problem/tensor.h"

namespace hw4 {
namespace {

[[noreturn]] void fail_beyond(Element element, const char* instead, const std::string& path) {
    throw Error(ExitCode::bad_data,
                path + ": its outputs go beyond " + name_of(element) + "; need " + instead + ", or smaller numbers");
}

} // namespace

const Computed* Contract::find(const Operation& operation) const {
    for (const Computed& computed : computes)
        if (computed.operation == &operation) return &computed;
    return nullptr;
}

std::string Contract::revision_of(const Operation& operation) const {
    const Computed* computed = find(operation);
    return computed == nullptr ? ""
                               : std::string(name) + "." + operation.name + "/" + std::to_string(computed->revision);
}

const Contract* find_contract(const std::string& name, const Contracts& list) {
    for (const Contract* contract : list)
        if (name == contract->name) return contract;
    return nullptr;
}

std::string contract_names(const Contracts& list) {
    std::string names;
    for (size_t i = 0; i < list.size(); ++i)
        names += (i == 0 ? "" : i + 1 < list.size() ? ", " : " or ") + std::string(list[i]->name);
    return names;
}

std::string unknown_contract(const std::string& name) {
    std::vector<std::string> known;
    for (const Contract* contract : contracts()) known.emplace_back(contract->name);
    return "--contract '" + name + "': need " + contract_names() + did_you_mean(name, known);
}

std::string why_not(const Contract& contract, const Problem& problem) {
    const std::string name = "the contract " + std::string(contract.name);
    const Computed* computed = contract.find(*problem.operation);
    if (computed == nullptr) return "asks for " + std::string(problem.operation->name) + ", which " + name + " lacks";
    if (!computed->masks.has(problem.mask))
        return "asks for the mask " + std::string(name_of(problem.mask)) + ", which " + name + " lacks";
    const bool takes_element = contract.element == Element::float32 || problem.element == Element::float32 ||
                               problem.element == contract.element;
    if (!takes_element)
        return "has elements of " + std::string(name_of(problem.element)) + ", " + name + " takes float32 and " +
               name_of(contract.element);
    if (contract.most_columns > 0 && problem.dim > contract.most_columns)
        return "has d = " + std::to_string(problem.dim) + ", " + name + " needs at most " +
               std::to_string(contract.most_columns);
    const Scales& scales = contract.scales;
    if (problem.scale != 0 && (problem.scale < scales.least || problem.scale > scales.most)) {
        char range[96];
        std::snprintf(range, sizeof range, "%.9g, %s takes %.9g to %.9g", problem.scale, name.c_str(), scales.least,
                      scales.most);
        return "asks for a scale of " + std::string(range);
    }
    const auto lacking = [&](const char* with, const char* gpus_have) {
        return "asks for " + std::string(problem.operation->name) + " with " + with + ", which " + name +
               " lacks: a GPU has " + gpus_have + " alone, and a contract computes the same cases everywhere";
    };
    if (problem.by_lengths && !computed->by_lengths)
        return lacking("lengths", "lengths in forward under f32, bf16 and fp16");
    if (problem.window > 0 && problem.mask == Mask::none) return "asks for a window, which needs the causal mask too";
    if (problem.window > 0 && !computed->windows) return lacking("a window", "windows in forward under f32");
    if (problem.is_padded() && !computed->pads)
        return "has d = " + std::to_string(problem.key_dim()) + " and d_v = " + std::to_string(problem.value_dim()) +
               ", need the same under " + name + ", which has no measured bound of another d_v";
    return "";
}

std::string why_no_statistics(const Contract& contract, const Problem& problem) {
    const Computed* computed = contract.find(*problem.operation);
    if (computed != nullptr && computed->one > 0) return "";
    return "asks for " + std::string(problem.operation->name) + ", whose rows have no logsumexp for --lse";
}

bool outputs_may_overflow(const Contract& contract, const Problem& problem) {
    return problem.element != Element::float32 ||
           (contract.element != Element::float32 && problem.operation != &kForward);
}

void refuse_infinite(const Contract& contract, const Problem& problem, const std::string& path, const void* outputs,
                     size_t count) {
    if (!outputs_may_overflow(contract, problem) || are_finite(problem.element, outputs, count)) return;
    if (contract.element != Element::float32) fail_beyond(contract.element, "another contract", path);
    fail_beyond(problem.element, "elements of float32", path);
}

void compute_by_reference(const Contract& contract, const Problem& problem, const float* in, float* out,
                          RowStatistics* statistics, const int32_t* lengths) {
    const Operation& operation = *problem.operation;
    const Computed& computed = *contract.find(operation);
    const auto row = static_cast<size_t>(problem.dim);
    const int64_t group = problem.heads / problem.kv_heads;
    const int64_t together = gives_rows_of_keys(operation) ? group : 1;
    for (int64_t unit = 0; unit < problem.units(); unit += together) {
        const int64_t batch = unit / problem.heads;
        const int64_t head = unit % problem.heads;
        const auto head_of = [&](const Operand& operand) {
            return operand.rows == Rows::of_queries ? head : head / group;
        };
        const int64_t keys = lengths == nullptr ? problem.keys : lengths[batch];
        UnitOperands operands{
            problem.queries, keys,           problem.dim,        {}, {}, problem.mask, nullptr, together,
            problem.scale,   problem.window, problem.key_columns};
        if (statistics != nullptr) operands.statistics = statistics + unit * problem.queries;
        for (size_t i = 0; i < operation.inputs.size(); ++i)
            operands.in[i] = operand_at(problem, operation.inputs, i, in, row).of(batch, head_of(operation.inputs[i]));
        for (size_t i = 0; i < operation.outputs.size(); ++i)
            operands.out[i] =
                operand_at(problem, operation.outputs, i, out, row).of(batch, head_of(operation.outputs[i]));
        computed.reference(operands);
    }
}

void logsumexps(const Contract& contract, const Problem& problem, const RowStatistics* rows, int64_t count, float* to) {
    const Scale scale = scale_for(problem.key_dim(), problem.scale);
    const double one = contract.find(*problem.operation)->one;
    for (int64_t i = 0; i < count; ++i) to[i] = logsumexp(rows[i], scale, one);
}

} // namespace hw4
