#include "src/library/call.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "src/base/error.h"

namespace hw4::library {
namespace {

using Wide = __int128;

[[noreturn]] void refuse(const std::string& what) { throw Error(ExitCode::usage, what); }

std::string text(int64_t number) { return std::to_string(number); }

int32_t require_code(const char* name, int32_t code, int32_t most) {
    if (code < 0 || code > most) refuse(std::string(name) + " is " + text(code) + ", need 0 to " + text(most));
    return code;
}

int64_t require_size(const char* name, int64_t size) {
    constexpr int64_t kMost = (int64_t{1} << 31) - 1;
    if (size < 1 || size > kMost) refuse(std::string(name) + " is " + text(size) + ", need 1 to " + text(kMost));
    return size;
}

Problem problem_of(const hw4_call& call) {
    Problem problem;
    problem.operation = require_code("operation", call.operation, HW4_BACKWARD) == HW4_FORWARD ? &kForward : &kBackward;
    problem.mask = require_code("mask", call.mask, HW4_CAUSAL) == HW4_CAUSAL ? Mask::causal : Mask::none;
    problem.element = kEveryElement[require_code("element", call.element, HW4_FP16)];
    problem.batches = require_size("batches", call.batches);
    problem.heads = require_size("heads", call.heads);
    problem.kv_heads = require_size("kv_heads", call.kv_heads);
    problem.queries = require_size("queries", call.queries);
    problem.keys = require_size("keys", call.keys);
    problem.dim = require_size("dim", call.dim);
    if (!(call.scale >= 0) || std::isinf(call.scale))
        refuse("scale is " + std::to_string(call.scale) + ", need a finite number above 0, or 0 for 1/sqrt(dim)");
    problem.scale = call.scale;
    if (call.window < 0) refuse("window is " + text(call.window) + ", need at least 1, or 0 for none");
    problem.window = call.window;
    problem.by_lengths = call.lengths != nullptr;
    if (problem.heads % problem.kv_heads != 0)
        refuse("kv_heads is " + text(problem.kv_heads) + ", need a number that divides heads = " + text(problem.heads));
    // So that every count of bytes fits, whatever is computed from it: eight tensors, floats.
    const Wide rows = Wide{problem.heads} * std::max(problem.queries, problem.keys);
    if ((32 * rows * problem.batches * problem.dim) >> 62 != 0) refuse("batches * heads * rows * dim is too large");
    return problem;
}

// A dimension of a tensor: how far apart its parts are, and how many there are.
struct Step {
    int64_t stride;
    int64_t count;
};

// No two elements of an output have one place.
bool is_apart(std::array<Step, 3> steps, int64_t dim) {
    std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.stride < b.stride; });
    Wide extent = dim;
    for (const auto& [stride, count] : steps) {
        if (count == 1) continue;
        if (stride < extent) return false;
        extent += Wide{stride} * (count - 1);
    }
    return true;
}

class Tensors {
public:
    Tensors(const Problem& problem, Pointers followed) : problem_(problem), followed_(followed) {}

    Tensor input(const hw4_tensor& given, const Operand& operand) const {
        return checked_tensor(given, operand, followed_ != Pointers::none);
    }
    Tensor output(const hw4_tensor& given, const Operand& operand) const {
        const Tensor tensor = checked_tensor(given, operand, followed_ == Pointers::all);
        if (!is_apart(steps_of(tensor, operand), problem_.dim))
            refuse(std::string(operand.name) + " has strides by which its rows overlap");
        return tensor;
    }

private:
    std::array<Step, 3> steps_of(const Tensor& tensor, const Operand& operand) const {
        return {Step{tensor.row, problem_.head_rows(operand)}, Step{tensor.head, problem_.heads_of(operand)},
                Step{tensor.batch, problem_.batches}};
    }

    Tensor checked_tensor(const hw4_tensor& given, const Operand& operand, bool with_pointer) const {
        if (with_pointer && given.data == nullptr) refuse(std::string(operand.name) + " is null");
        Tensor tensor{given.data, problem_.element, given.batch, given.head, given.row};
        // The stride of a dimension of one is never used: callers may have left anything there.
        if (problem_.batches == 1) tensor.batch = 0;
        if (problem_.heads_of(operand) == 1) tensor.head = 0;
        if (problem_.head_rows(operand) == 1) tensor.row = problem_.dim;
        Wide elements = problem_.dim;
        for (const auto& [stride, count] : steps_of(tensor, operand)) {
            if (stride < 0)
                refuse(std::string(operand.name) + " has a stride of " + text(stride) + ", need at least 0");
            elements += Wide{stride} * (count - 1);
        }
        if (elements >> 60 != 0) refuse(std::string(operand.name) + " has strides beyond any memory");
        if (tensor.row < problem_.dim)
            refuse(std::string(operand.name) + " has rows " + text(tensor.row) + " elements apart, need at least " +
                   "dim = " + text(problem_.dim));
        return tensor;
    }

    const Problem& problem_;
    Pointers followed_;
};

} // namespace

Call checked(const hw4_call& given, Pointers followed) {
    if (given.size != sizeof(hw4_call))
        refuse("hw4_call.size is " + std::to_string(given.size) + ", need " + std::to_string(sizeof(hw4_call)) +
               ": the caller was compiled with another hw4.h");
    if (given.contract == nullptr) refuse("contract is null, need " + contract_names());
    require_code("place", given.place, HW4_DEVICE);
    Call call;
    call.contract = find_contract(given.contract);
    if (call.contract == nullptr) refuse("contract '" + std::string(given.contract) + "', need " + contract_names());
    call.kernel = given.kernel;
    call.problem = problem_of(given);
    const Problem& problem = call.problem;
    const std::string why_not = hw4::why_not(*call.contract, problem);
    if (!why_not.empty()) throw Error(ExitCode::bad_data, "the call " + why_not);
    call.lengths = given.lengths;
    if (problem.by_lengths && given.place == HW4_HOST && followed != Pointers::none)
        require_lengths(problem, given.lengths);
    const Tensors tensors(problem, followed);
    const List<Operand>& inputs = problem.operation->inputs;
    const List<Operand>& outputs = problem.operation->outputs;
    if (problem.operation == &kForward) {
        const hw4_tensor* const in[] = {&given.q, &given.k, &given.v};
        for (size_t i = 0; i < inputs.size(); ++i) call.in[i] = tensors.input(*in[i], inputs[i]);
        call.out[0] = tensors.output(given.o, outputs[0]);
        call.lse = given.lse;
    } else {
        const hw4_tensor* const in[] = {&given.q, &given.k, &given.v, &given.d_o};
        const hw4_tensor* const out[] = {&given.dq, &given.dk, &given.dv};
        for (size_t i = 0; i < inputs.size(); ++i) call.in[i] = tensors.input(*in[i], inputs[i]);
        for (size_t i = 0; i < outputs.size(); ++i) call.out[i] = tensors.output(*out[i], outputs[i]);
        if ((given.o.data == nullptr) != (given.statistics == nullptr))
            refuse("backward takes both o and statistics of a forward call, or neither");
        if (given.o.data != nullptr) call.forward_out = tensors.input(given.o, kForward.outputs[0]);
    }
    static_assert(sizeof(hw4_statistics) == sizeof(RowStatistics));
    call.statistics = reinterpret_cast<RowStatistics*>(given.statistics);
    call.workspace = given.workspace;
    call.workspace_bytes = given.workspace_bytes;
    call.stream = given.stream;
    call.threads = given.threads;
    if (call.threads < 0) refuse("threads is " + text(call.threads) + ", need at least 0");
    return call;
}

void require_lengths(const Problem& problem, const int32_t* lengths) {
    for (int64_t batch = 0; batch < problem.batches; ++batch)
        if (lengths[batch] < 1 || lengths[batch] > problem.keys)
            throw Error(ExitCode::bad_data, "lengths: batch " + text(batch) + " has " + text(lengths[batch]) +
                                                " keys, need 1 to " + text(problem.keys));
}

void require_workspace(const Call& call, size_t bytes) {
    if (bytes > 0 && (call.workspace == nullptr || call.workspace_bytes < bytes))
        refuse("the workspace has " + std::to_string(call.workspace == nullptr ? 0 : call.workspace_bytes) +
               " bytes, need " + std::to_string(bytes) + ": hw4_plan() says so");
    if (reinterpret_cast<uintptr_t>(call.workspace) % 64 != 0) refuse("the workspace has to begin at a multiple of 64");
}

} // namespace hw4::library
