// The calls for a GPU: connects src/gpu with the caller's pointers, stream and workspace.
#include <cuda_runtime.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "src/base/error.h"
#include "src/base/float_bits.h"
#include "src/gpu/device/check.h"
#include "src/gpu/kernels.h"
#include "src/gpu/row_passes.h"
#include "src/library/call.h"

namespace hw4 {

cudaError_t gpu::due_fault() { return cudaSuccess; }

namespace library::on_device {
namespace {

constexpr size_t kAlignment = 256; // of parts of the workspace

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The calling thread's GPU; each thread asks the driver once.
const gpu::Device& device_in_use() {
    thread_local std::map<int, gpu::Device> known;
    const int card = gpu::card_in_use();
    const auto found = known.find(card);
    return found != known.end() ? found->second : known.emplace(card, gpu::current_device()).first->second;
}

struct Choice {
    const gpu::Kernel* kernel = nullptr;
    gpu::Plan plan;
};

std::string why_none(const Contract& contract, const Problem& problem) {
    const char* const with = problem.by_pages     ? " with pages"
                             : problem.by_lengths ? " with lengths"
                             : problem.window > 0 ? " with a window"
                                                  : "";
    std::string text = "no GPU kernel takes this problem" + std::string(with) + " under " + contract.name;
    if (problem.dim > gpu::kMostColumns)
        return text + ": dim is " + std::to_string(problem.dim) + ", need at most " + std::to_string(gpu::kMostColumns);
    if (problem.by_pages && problem.is_padded())
        return text + ": value_dim is " + std::to_string(problem.value_dim()) +
               ", need dim = " + std::to_string(problem.key_dim());
    if (problem.by_pages && problem.stored_row_bytes() % 16 != 0)
        text += ": rows have " + std::to_string(problem.stored_row_bytes()) + " bytes, need a multiple of 16";
    return text;
}

Choice chosen_anew(const Call& call, const gpu::Device& device) {
    const gpu::Kernel* kernel = nullptr;
    if (call.kernel == nullptr) {
        kernel = gpu::choose_kernel(call.problem, device, *call.contract);
        if (kernel == nullptr) throw Error(ExitCode::bad_data, why_none(*call.contract, call.problem));
    } else {
        kernel = gpu::find_kernel(call.kernel);
        if (kernel == nullptr || kernel->under != call.contract || kernel->does != call.problem.operation)
            throw Error(ExitCode::usage, "no GPU kernel '" + std::string(call.kernel) + "' computes " +
                                             call.problem.operation->name + " under " + call.contract->name);
    }
    Choice choice{kernel, gpu::plan_of(*kernel, call.problem, device)};
    if (!choice.plan.why_not.empty()) throw Error(ExitCode::bad_data, choice.plan.why_not);
    return choice;
}

// The thread's last choices are cached, since most calls repeat an earlier one.
const Choice& choose(const Call& call, const gpu::Device& device) {
    const Problem& p = call.problem;
    using Key = std::tuple<const gpu::Device*, const Contract*, const Operation*, Mask, Element, int64_t, int64_t,
                           int64_t, int64_t, int64_t, int64_t, int64_t, bool, bool, int64_t>;
    thread_local std::map<Key, Choice> known;
    if (call.kernel != nullptr) {
        thread_local Choice named;
        return named = chosen_anew(call, device);
    }
    const Key key(&device, call.contract, p.operation, p.mask, p.element, p.batches, p.heads, p.kv_heads, p.queries,
                  p.keys, p.key_dim(), p.value_dim(), p.by_lengths, p.by_pages, p.window);
    const auto found = known.find(key);
    if (found != known.end()) return found->second;
    constexpr size_t kMostKnown = 256;
    if (known.size() >= kMostKnown) known.clear();
    return known.emplace(key, chosen_anew(call, device)).first->second;
}

// Where the caller asks for lse and gives no statistics, the workspace contains them.
size_t statistics_bytes(const Call& call) {
    return call.lse != nullptr && call.statistics == nullptr ? aligned(call.query_rows() * sizeof(RowStatistics)) : 0;
}

size_t extremes_of(const Problem& problem, const Operand& operand) {
    return static_cast<size_t>(problem.batches * problem.heads_of(operand) *
                               gpu::extremes_of_head(problem.head_rows(operand)));
}

size_t check_bytes(const Problem& problem) {
    size_t records = 0;
    for (const Operand& operand : problem.operation->inputs) records += extremes_of(problem, operand);
    return records * sizeof(gpu::RowExtremes);
}

cudaStream_t stream_of(const Call& call) { return static_cast<cudaStream_t>(call.stream); }

// Rows in the file's order as floats, copied from the GPU, with zeros behind their columns. The table of pages is in
// host memory.
std::vector<float> fetched(const Call& call, const Tensor& tensor, int64_t columns_of_row, const PageTable& pages,
                           int64_t batch, int64_t head, int64_t first, int64_t rows) {
    const size_t element = bytes_of(tensor.element);
    const auto columns = static_cast<size_t>(columns_of_row);
    const auto pitch = static_cast<size_t>(call.problem.dim);
    std::vector<unsigned char> stored(static_cast<size_t>(rows) * columns * element);
    for (int64_t row = 0, count = 0; row < rows; row += count) { // with pages, at most a page at a time
        count = pages.at == nullptr ? rows : std::min(rows - row, pages.keys - (first + row) % pages.keys);
        const size_t apart = count == 1 ? columns * element : static_cast<size_t>(tensor.row) * element;
        const auto* const from = static_cast<const unsigned char*>(tensor.data) +
                                 static_cast<size_t>(pages.offset(tensor, batch, head, first + row)) * element;
        HW4_CUDA(cudaMemcpy2DAsync(stored.data() + static_cast<size_t>(row) * columns * element, columns * element,
                                   from, apart, columns * element, static_cast<size_t>(count), cudaMemcpyDeviceToHost,
                                   stream_of(call)));
    }
    HW4_CUDA(cudaStreamSynchronize(stream_of(call)));
    std::vector<float> values(static_cast<size_t>(rows) * pitch);
    for (size_t row = 0; row < static_cast<size_t>(rows); ++row)
        widen(tensor.element, stored.data() + row * columns * element, columns, values.data() + row * pitch);
    return values;
}

} // namespace

void require_gpu() {
    int count = 0;
    HW4_CUDA(cudaGetDeviceCount(&count));
    const gpu::Device& device = device_in_use();
    if (device.code_arch == 0)
        throw Error(ExitCode::no_gpu, "libhw4 has no code for this GPU, of compute capability " +
                                          std::to_string(device.arch / 10) + "." + std::to_string(device.arch % 10));
}

Needs plan(const Call& call) {
    const Choice& choice = choose(call, device_in_use());
    const size_t beside = statistics_bytes(call);
    return {choice.plan.scratch_bytes + beside, std::max(choice.plan.scratch_bytes, choice.plan.most_scratch) + beside,
            check_bytes(call.problem), choice.kernel->name};
}

void run(const Call& call) {
    const gpu::Device& device = device_in_use();
    const Choice& choice = choose(call, device);
    const size_t beside = statistics_bytes(call);
    require_workspace(call, choice.plan.scratch_bytes + beside);
    gpu::Launch launch;
    launch.problem = call.problem;
    launch.device = device;
    launch.lengths = call.lengths;
    launch.pages = call.pages;
    std::copy(std::begin(call.in), std::end(call.in), launch.in);
    std::copy(std::begin(call.out), std::end(call.out), launch.out);
    launch.statistics = beside > 0 ? static_cast<RowStatistics*>(call.workspace) : call.statistics;
    // A rounded O is not used but computed again: gradients need the O before rounding.
    if (call.forward_out.data != nullptr && !gpu::loses_output(*choice.kernel, call.problem.element))
        launch.forward_out = call.forward_out;
    else if (call.problem.operation == &kBackward)
        launch.statistics = nullptr;
    launch.scratch = static_cast<unsigned char*>(call.workspace) + beside;
    launch.scratch_bytes = call.workspace == nullptr ? 0 : call.workspace_bytes - beside;
    choice.kernel->launch(launch, stream_of(call));
    if (call.lse == nullptr) return;
    gpu::logsumexps(launch.statistics, static_cast<int64_t>(call.query_rows()),
                    scale_for(call.problem.key_dim(), call.problem.scale),
                    call.contract->find(*call.problem.operation)->one, call.lse, stream_of(call));
}

namespace {

// Checks some batches with as many keys as the problem has. `known` is the table of pages in host memory.
void check_batches(const Call& call, const Problem& problem, int64_t first_batch, const PageTable& known = {}) {
    const List<Operand>& inputs = problem.operation->inputs;
    auto* to = static_cast<gpu::RowExtremes*>(call.workspace);
    for (size_t i = 0; i < inputs.size(); ++i) {
        Tensor tensor = call.in[i];
        PageTable pages = inputs[i].rows == Rows::of_keys ? call.pages : PageTable{};
        if (pages.at == nullptr)
            tensor.data = tensor.at(first_batch, 0);
        else
            pages.at += first_batch * pages.columns;
        gpu::find_extremes(tensor, pages, problem.batches, problem.heads_of(inputs[i]), problem.head_rows(inputs[i]),
                           problem.columns_of(inputs[i]), to, stream_of(call));
        to += extremes_of(problem, inputs[i]);
    }
    const size_t bytes = check_bytes(problem);
    std::vector<gpu::RowExtremes> records(bytes / sizeof(gpu::RowExtremes));
    HW4_CUDA(cudaMemcpyAsync(records.data(), call.workspace, bytes, cudaMemcpyDeviceToHost, stream_of(call)));
    HW4_CUDA(cudaStreamSynchronize(stream_of(call)));
    const DomainCheck domain(kInputs, problem, call.contract->domain);
    const uint32_t limit = bits_of(overflow_of(call.contract->domain.element));
    for (int64_t in_turn = 0; in_turn < problem.batches; ++in_turn) {
        const int64_t batch = first_batch + in_turn;
        BatchExtremes seen;
        int64_t rows_before = batch * problem.batch_input_rows();
        const gpu::RowExtremes* of_input = records.data();
        for (size_t i = 0; i < inputs.size(); ++i) {
            const int64_t rows = problem.head_rows(inputs[i]);
            const int64_t heads = problem.heads_of(inputs[i]);
            const int64_t of_head = gpu::extremes_of_head(rows);
            for (int64_t head = 0; head < heads; ++head)
                for (int64_t part = 0; part < of_head; ++part) {
                    const gpu::RowExtremes& found = of_input[(in_turn * heads + head) * of_head + part];
                    const int64_t first = part * gpu::kExtremesRows;
                    if (found.magnitude_bits >= limit) {
                        const int64_t count = std::min(gpu::kExtremesRows, rows - first);
                        const std::vector<float> values =
                            fetched(call, call.in[i], problem.columns_of(inputs[i]),
                                    inputs[i].rows == Rows::of_keys ? known : PageTable{}, batch, head, first, count);
                        const Findings flaw = domain.examine(rows_before + head * rows + first, count, values.data());
                        if (flaw.flaw) std::rethrow_exception(flaw.flaw);
                    }
                    const double largest = float_of(found.magnitude_bits);
                    const LargestRow row{found.largest_sum, head * rows + found.row};
                    BatchExtremes one;
                    switch (inputs[i].role) {
                    case Role::query: one.query_row = row, one.query = largest; break;
                    case Role::key: one.key = largest; break;
                    case Role::value: one.value = largest; break;
                    case Role::gradient: one.gradient_row = row, one.gradient = largest; break;
                    case Role::other: break;
                    }
                    seen.merge(one);
                }
            rows_before += heads * rows;
            of_input += extremes_of(problem, inputs[i]);
        }
        domain.judge(batch, seen);
    }
}

} // namespace

void check(const Call& call) {
    device_in_use();
    const Problem& problem = call.problem;
    require_workspace(call, check_bytes(problem));
    if (!problem.by_lengths) return check_batches(call, problem, 0);
    std::vector<int32_t> lengths(static_cast<size_t>(problem.batches));
    HW4_CUDA(cudaMemcpyAsync(lengths.data(), call.lengths, lengths.size() * sizeof lengths[0], cudaMemcpyDeviceToHost,
                             stream_of(call)));
    HW4_CUDA(cudaStreamSynchronize(stream_of(call)));
    require_lengths(problem, lengths.data());
    PageTable pages = call.pages;
    std::vector<int32_t> table(static_cast<size_t>(problem.batches * pages.columns));
    if (problem.by_pages) {
        HW4_CUDA(cudaMemcpyAsync(table.data(), pages.at, table.size() * sizeof table[0], cudaMemcpyDeviceToHost,
                                 stream_of(call)));
        HW4_CUDA(cudaStreamSynchronize(stream_of(call)));
        pages.at = table.data();
        require_pages(pages, problem.batches, lengths.data(), problem.keys);
    }
    for (int64_t batch = 0; batch < problem.batches; ++batch)
        check_batches(call, problem.of_batches(1).of_keys(lengths[static_cast<size_t>(batch)]), batch, pages);
}

void append(const Append& all, void* stream) { gpu::append_rows(all, static_cast<cudaStream_t>(stream)); }

} // namespace library::on_device
} // namespace hw4
