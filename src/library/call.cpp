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

// Keeps every derived count of bytes in range: eight tensors of floats.
void require_total(const Problem& problem) {
    const Wide rows = Wide{std::max(problem.heads, problem.kv_heads)} * std::max(problem.queries, problem.keys);
    if ((32 * rows * problem.batches * problem.dim) >> 62 != 0) refuse("batches * heads * rows * dim is too large");
}

// A call of either kind.
template <class Given>
PageTable pages_of(const Given& call) {
    if (call.pages == nullptr) return {};
    if (call.lengths == nullptr) refuse("pages are given without lengths");
    constexpr int64_t kLeast = 16;
    constexpr int64_t kMost = 256;
    const int64_t keys = call.page_keys;
    if (keys < kLeast || keys > kMost || (keys & (keys - 1)) != 0)
        refuse("page_keys is " + text(keys) + ", need 16, 32, 64, 128 or 256");
    require_size("page_count", call.page_count);
    require_size("page_columns", call.page_columns);
    if (call.keys > keys * call.page_columns)
        refuse("keys is " + text(call.keys) +
               ", need at most page_columns * page_keys = " + text(keys * call.page_columns));
    return {call.pages, keys, call.page_columns, call.page_count};
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
    const int64_t dim = require_size("dim", call.dim);
    problem = problem.of_columns(dim, call.value_dim == 0 ? dim : require_size("value_dim", call.value_dim));
    problem.unpadded = problem.is_padded();
    if (!(call.scale >= 0) || std::isinf(call.scale))
        refuse("scale is " + std::to_string(call.scale) + ", need a finite number above 0, or 0 for 1/sqrt(dim)");
    problem.scale = call.scale;
    if (call.window < 0) refuse("window is " + text(call.window) + ", need at least 1, or 0 for none");
    problem.window = call.window;
    problem.by_lengths = call.lengths != nullptr;
    if (problem.heads % problem.kv_heads != 0)
        refuse("kv_heads is " + text(problem.kv_heads) + ", need a number that divides heads = " + text(problem.heads));
    problem.by_pages = call.pages != nullptr;
    require_total(problem);
    return problem;
}

// A dimension of a tensor: the stride between its parts, and their number.
struct Step {
    int64_t stride;
    int64_t count;
};

// Whether no two elements of an output share a place.
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
    Tensors(const Problem& problem, Pointers followed, const PageTable& pages = {})
        : problem_(problem), followed_(followed), pages_(pages) {}

    Tensor input(const hw4_tensor& given, const Operand& operand) const {
        return checked_tensor(given, operand, followed_ != Pointers::none);
    }
    Tensor output(const hw4_tensor& given, const Operand& operand) const {
        const Tensor tensor = checked_tensor(given, operand, followed_ == Pointers::all);
        if (!is_apart(steps_of(tensor, operand), problem_.columns_of(operand)))
            refuse(std::string(operand.name) + " has strides by which its rows overlap");
        return tensor;
    }

private:
    std::array<Step, 3> steps_of(const Tensor& tensor, const Operand& operand) const {
        const bool paged = pages_.at != nullptr && operand.rows == Rows::of_keys;
        return {Step{tensor.row, paged ? pages_.keys : problem_.head_rows(operand)},
                Step{tensor.head, problem_.heads_of(operand)},
                Step{tensor.batch, paged ? pages_.count : problem_.batches}};
    }

    Tensor checked_tensor(const hw4_tensor& given, const Operand& operand, bool with_pointer) const {
        if (with_pointer && given.data == nullptr) refuse(std::string(operand.name) + " is null");
        Tensor tensor{given.data, problem_.element, given.batch, given.head, given.row};
        // The stride of a dimension of size one is never used: callers may leave any value there.
        const std::array<Step, 3> steps = steps_of(tensor, operand);
        if (steps[2].count == 1) tensor.batch = 0;
        if (steps[1].count == 1) tensor.head = 0;
        const int64_t columns = problem_.columns_of(operand);
        if (steps[0].count == 1) tensor.row = columns;
        Wide elements = columns;
        for (const auto& [stride, count] : steps_of(tensor, operand)) {
            if (stride < 0)
                refuse(std::string(operand.name) + " has a stride of " + text(stride) + ", need at least 0");
            elements += Wide{stride} * (count - 1);
        }
        if (elements >> 60 != 0) refuse(std::string(operand.name) + " has strides beyond any memory");
        if (tensor.row < columns)
            refuse(std::string(operand.name) + " has rows " + text(tensor.row) + " elements apart, need at least " +
                   (problem_.is_padded() && operand.has_value_columns ? "value_dim" : "dim") + " = " + text(columns));
        return tensor;
    }

    const Problem& problem_;
    Pointers followed_;
    PageTable pages_;
};

// Checks "lengths" in host memory.
void require_lengths(int64_t batches, const int32_t* lengths, int64_t least, int64_t most) {
    for (int64_t batch = 0; batch < batches; ++batch)
        if (lengths[batch] < least || lengths[batch] > most)
            throw Error(ExitCode::bad_data, "lengths: batch " + text(batch) + " has " + text(lengths[batch]) +
                                                " keys, need " + text(least) + " to " + text(most));
}

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
    call.pages = pages_of(given);
    if (problem.by_lengths && given.place == HW4_HOST && followed != Pointers::none) {
        require_lengths(problem, given.lengths);
        require_pages(call.pages, problem.batches, given.lengths, problem.keys);
    }
    const Tensors tensors(problem, followed, call.pages);
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
    require_lengths(problem.batches, lengths, 1, problem.keys);
}

void require_pages(const PageTable& pages, int64_t batches, const int32_t* lengths, int64_t last_keys) {
    if (pages.at == nullptr) return;
    for (int64_t batch = 0; batch < batches; ++batch) {
        const int64_t first = std::max<int64_t>(0, lengths[batch] - last_keys) / pages.keys;
        for (int64_t column = first; column * pages.keys < lengths[batch]; ++column) {
            const int32_t page = pages.at[batch * pages.columns + column];
            if (!pages.has(page))
                throw Error(ExitCode::bad_data, "pages: batch " + text(batch) + ", column " + text(column) + " is " +
                                                    text(page) + ", need 0 to " + text(pages.count - 1));
        }
    }
}

Append checked(const hw4_append_call& given) {
    if (given.size != sizeof(hw4_append_call))
        refuse("hw4_append_call.size is " + std::to_string(given.size) + ", need " +
               std::to_string(sizeof(hw4_append_call)) + ": the caller was compiled with another hw4.h");
    require_code("place", given.place, HW4_DEVICE);
    if (given.lengths == nullptr) refuse("lengths is null");
    Problem cache;
    cache.element = kEveryElement[require_code("element", given.element, HW4_FP16)];
    cache.batches = require_size("batches", given.batches);
    cache.kv_heads = require_size("kv_heads", given.kv_heads);
    cache.heads = given.heads == 0 ? cache.kv_heads : require_size("heads", given.heads);
    cache.queries = require_size("tokens", given.tokens);
    cache.keys = require_size("keys", given.keys);
    const int64_t dim = require_size("dim", given.dim);
    cache = cache.of_columns(dim, given.value_dim == 0 ? dim : require_size("value_dim", given.value_dim));
    require_total(cache);
    const Problem rows = cache.of_keys(cache.queries);
    Append append;
    append.pages = pages_of(given);
    append.batches = cache.batches;
    append.tokens = cache.queries;
    append.keys = cache.keys;
    append.lengths = given.lengths;
    append.rope = given.rope;
    append.interleaved = require_code("rope_layout", given.rope_layout, HW4_ROPE_INTERLEAVED) == HW4_ROPE_INTERLEAVED;
    const bool rotates = given.rope != nullptr;
    if (rotates && dim % 2 != 0) refuse("dim is " + text(dim) + ", RoPE needs an even one");
    if (rotates && given.rope_positions < cache.keys)
        refuse("rope_positions is " + text(given.rope_positions) + ", need at least keys = " + text(cache.keys));
    if (!rotates && given.heads != 0) refuse("q is given without rope");
    if (given.place == HW4_HOST) {
        require_lengths(cache.batches, given.lengths, cache.queries, cache.keys);
        require_pages(append.pages, cache.batches, given.lengths, cache.queries);
    }
    const Tensors in(rows, Pointers::all);
    const Tensors out(cache, Pointers::all, append.pages);
    const auto named = [](const char* name, Rows of) { return Operand{name, of, Role::other}; };
    const auto of_values = [](const char* name) { return Operand{name, Rows::of_keys, Role::other, true}; };
    append.parts[0] = {in.input(given.k, named("k", Rows::of_keys)),
                       out.output(given.k_cache, named("k_cache", Rows::of_keys)), cache.kv_heads, true, rotates};
    append.parts[1] = {in.input(given.v, of_values("v")), out.output(given.v_cache, of_values("v_cache")),
                       cache.kv_heads, true, false};
    if (given.heads != 0)
        append.parts[2] = {in.input(given.q, named("q", Rows::of_queries)),
                           in.output(given.q_out, named("q_out", Rows::of_queries)), cache.heads, false, true};
    append.parts[0].columns = append.parts[2].columns = dim;
    append.parts[1].columns = cache.value_dim();
    return append;
}

void require_workspace(const Call& call, size_t bytes) {
    if (bytes > 0 && (call.workspace == nullptr || call.workspace_bytes < bytes))
        refuse("the workspace has " + std::to_string(call.workspace == nullptr ? 0 : call.workspace_bytes) +
               " bytes, need " + std::to_string(bytes) + ": hw4_plan() says so");
    if (reinterpret_cast<uintptr_t>(call.workspace) % 64 != 0) refuse("the workspace has to begin at a multiple of 64");
}

} // namespace hw4::library
