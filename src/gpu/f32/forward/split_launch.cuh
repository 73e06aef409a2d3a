// The launches of split_keys for one element type.
#pragma once

#include <algorithm>
#include <string>

#include "src/gpu/device/check.h"
#include "src/gpu/f32/forward/split_fold.h"
#include "src/gpu/f32/forward/split_keys.cuh"
#include "src/gpu/f32/forward/split_keys.h"
#include "src/gpu/f32/forward/split_striped_block.cuh"

namespace hw4::gpu::split {

template <class T>
int64_t units_of(const Problem& problem, int64_t queries) {
    const int64_t rows = problem.heads / problem.kv_heads * queries;
    return problem.batches * problem.kv_heads * ((rows + T::kRows - 1) / T::kRows);
}

// Chooses the rows of a unit: all that share a head of K and V if they are few, otherwise eight at a time. Where there
// are too few segments to keep the GPU busy, one: then more warps have work, and each has less.
template <class E, int kDim, class Work>
auto with_rows(const Problem& problem, const Device& device, const Work& work) {
    using Four = Tile<E, kDim, 4>;
    const int64_t rows = problem.heads / problem.kv_heads * problem.queries;
    const int64_t segments = units_of<Four>(problem, problem.queries) * segments_of(problem.keys);
    if (rows == 1 || segments < 4 * device.multiprocessors) return work(Tile<E, kDim, 1>());
    return rows <= 4 ? work(Four()) : work(Tile<E, kDim, 8>());
}

template <class E, class Work>
auto with_tile(const Problem& problem, const Device& device, const Work& work) {
    if (problem.dim > 128) return work(Tile<E, 256, 4>());
    return problem.dim > 64 ? with_rows<E, 128>(problem, device, work) : with_rows<E, 64>(problem, device, work);
}

// Takes arrays from scratch memory, one after the other.
struct Taken {
    void* memory;
    size_t bytes = 0;

    template <class Element>
    void operator()(Element*& pointer, int64_t count) {
        constexpr size_t kLine = 256;
        pointer = reinterpret_cast<Element*>(static_cast<unsigned char*>(memory) + bytes);
        bytes += (static_cast<size_t>(count) * sizeof(Element) + kLine - 1) / kLine * kLine;
    }
};

// Sets the places in scratch memory, for `blocks` blocks and `kept` stored segments. Returns the bytes.
template <class T>
size_t lay_out(Scratch& scratch, void* memory, int64_t blocks, int64_t kept) {
    Taken place{memory};
    place(scratch.totals, blocks * T::kRows * T::kDim);
    place(scratch.states, blocks * T::kRows);
    place(scratch.last_states, blocks * T::kRows);
    place(scratch.sums, kept * T::kRows * T::kDim);
    place(scratch.factors, kept * T::kRows);
    place(scratch.changed_in_first, blocks);
    place(scratch.changed_in_later, blocks);
    place(scratch.handed_over, blocks);
    return place.bytes;
}

// Up to so many segments, a block for each unit takes less time than several. Measured on an H200.
constexpr int64_t kMostOfOneBlock = 16;

// How several blocks share each of a few units (split_striped_fold.cuh), if they do: blocks and slots of a unit, and
// warps of a block that compute.
struct StripePlan {
    int64_t units = 0, blocks = 0, slots = 0, warps = 0;
};

template <class T>
StripePlan stripe_plan(const Problem& problem, const Device& device, int64_t units, int64_t of_unit) {
    // Measured on an H200: up to 64 segments a block, one launch takes 0.5 to 0.95 of the time of three, and beyond it
    // more. Where lengths differ, the longest may be alone in so many.
    const int64_t most_segments =
        (problem.by_lengths && problem.batches > 1 ? 16 : 64) * int64_t{device.multiprocessors};
    constexpr int64_t kMostKeys = int64_t{1} << 30; // a warp's next segment may be that far behind the last key
    const int64_t blocks = std::min(device.multiprocessors / units, of_unit);
    const int64_t slots = (of_unit + kFoldBatch - 1) / kFoldBatch * kFoldBatch;
    const int64_t fitting = T::warps(device.shared_bytes - kFoldWarps * kFoldBytes);
    if (blocks < 2 || units * slots > most_segments || problem.keys > kMostKeys) return {};
    return {units, blocks, slots,
            std::min<int64_t>({fitting, T::kMostWarps - kFoldWarps, (of_unit + blocks - 1) / blocks})};
}

template <class T>
size_t lay_out(Stripes& stripes, void* memory, const StripePlan& plan) {
    Taken place{memory};
    Slot<T>* slots = nullptr;
    place(stripes.counters, plan.units * kCounters);
    place(slots, plan.units * plan.slots);
    place(stripes.references, plan.units * plan.slots * T::kRows * kTiles);
    place(stripes.inverse, plan.units * T::kRows);
    stripes.slots = slots;
    stripes.blocks_of_unit = static_cast<int>(plan.blocks);
    stripes.slots_of_unit = static_cast<int>(plan.slots);
    return place.bytes;
}

// False: the stream has fewer multiprocessors than the GPU, and not all blocks can run at the same time.
template <class T>
bool launch_striped(Args args, const Launch& launch, const StripePlan& plan, cudaStream_t stream) {
    lay_out<T>(args.stripes, launch.scratch, plan);
    const size_t counted = static_cast<size_t>(plan.units * kCounters) * sizeof(unsigned);
    HW4_CUDA(cudaMemsetAsync(args.stripes.counters, 0, counted, stream));
    const auto kernel = striped_kernel<T>;
    HW4_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(launch.device.shared_bytes)));
    return launch_together("launch of striped_kernel", kernel, static_cast<unsigned>(plan.units * plan.blocks),
                           static_cast<unsigned>((plan.warps + kFoldWarps) * kWarpSize),
                           T::bytes(static_cast<int>(plan.warps)) + kFoldWarps * kFoldBytes, stream, args);
}

// The most segments of a unit, for any lengths, in a launch from that query on.
inline int64_t most_segments_of(const Problem& problem, int64_t first_query) {
    const int64_t all = segments_of(problem.keys);
    if (problem.window == 0) return all;
    return std::min(all, most_segments_of(problem.queries - 1 - first_query + window_or_none(problem.window)));
}

template <class T>
Shares shares_of(const Problem& problem, const Device& device, int64_t queries, int64_t of_unit) {
    const int64_t units = units_of<T>(problem, queries);
    const int64_t segments = units * of_unit;
    const int64_t warps = T::warps(device.shared_bytes);
    int64_t blocks = std::min<int64_t>((segments + warps - 1) / warps, device.multiprocessors);
    // A block for each unit splits no unit, and this many blocks keep the memory busy.
    if (units < blocks && 4 * units >= 3 * int64_t{device.multiprocessors}) blocks = units;
    return {segments, blocks};
}

// The segments of the line, where a unit may go through more than two blocks; otherwise none is kept.
inline int64_t kept_segments(const Shares& shares, int64_t of_unit) {
    return std::min(shares.segments, shares.blocks * of_unit);
}

template <class E>
Plan plan(const Problem& problem, const Device& device) {
    return with_tile<E>(problem, device, [&](auto tile) {
        using T = decltype(tile);
        Plan plan;
        Scratch scratch{};
        constexpr int64_t kMost = int64_t{1} << 30; // the kernels count in 32 bits
        const int64_t rows = problem.heads / problem.kv_heads * problem.queries;
        if (std::max({rows, units_of<T>(problem.of_batches(1), problem.queries), problem.batches}) > kMost)
            plan.why_not =
                "takes up to " + std::to_string(kMost) + " query rows for a head of keys, and as many batches";
        plan.shared_bytes = std::max(T::bytes(1), sizeof(FoldMemory));
        // Also enough for a launch of fewer query rows.
        const int64_t of_unit = most_segments_of(problem, 0);
        const int64_t segments = units_of<T>(problem, problem.queries) * of_unit;
        const int64_t blocks = std::min<int64_t>(segments, device.multiprocessors);
        plan.scratch_bytes = lay_out<T>(scratch, nullptr, blocks, kept_segments({segments, blocks}, of_unit));
        const int64_t striped = std::min<int64_t>(units_of<T>(problem, problem.queries), device.multiprocessors / 2);
        // A launch of fewer rows may be striped though this one is not.
        for (int64_t units = striped; units > 0; --units) {
            Stripes stripes{};
            const StripePlan found = stripe_plan<T>(problem, device, units, of_unit);
            if (found.blocks == 0) continue;
            plan.scratch_bytes = std::max(plan.scratch_bytes, lay_out<T>(stripes, nullptr, found));
            break;
        }
        return plan;
    });
}

inline Operand operand_of(const Tensor& tensor) { return {tensor.data, tensor.batch, tensor.head, tensor.row}; }

template <class E>
void launch(const Launch& launch, cudaStream_t stream) {
    const Problem& problem = launch.problem;
    Args args{};
    args.q = operand_of(launch.in[0].from_row(launch.first_query));
    args.k = operand_of(launch.in[1]);
    args.v = operand_of(launch.in[2]);
    args.out = operand_of(launch.out[0].from_row(launch.first_query));
    args.lengths = launch.lengths;
    args.pages = launch.pages;
    args.page_shift = args.pages.shift();
    args.statistics = launch.statistics;
    args.statistics_unit = problem.queries;
    args.first_query = launch.first_query;
    args.all_queries = problem.queries;
    args.keys = problem.keys;
    args.batches = static_cast<int>(problem.batches);
    args.kv_heads = static_cast<int>(problem.kv_heads);
    args.group = static_cast<int>(problem.heads / problem.kv_heads);
    args.queries = static_cast<int>(launch.queries());
    args.dim = static_cast<int>(problem.dim);
    args.causal = problem.mask == Mask::causal;
    args.window = window_or_none(problem.window);
    args.scale = scale_for(problem.key_dim(), problem.scale);
    with_tile<E>(problem, launch.device, [&](auto tile) {
        using T = decltype(tile);
        args.k_step = args.k.row * T::kRowsTogether * static_cast<int64_t>(sizeof(E));
        args.v_step = args.v.row * T::kRowsTogether * static_cast<int64_t>(sizeof(E));
        args.row_blocks = (args.group * args.queries + T::kRows - 1) / T::kRows;
        const bool by_lengths = launch.lengths != nullptr;
        const int64_t of_unit = by_lengths ? most_segments_of(problem, launch.first_query) : args.segments_of_batch(0);
        const Shares shares = shares_of<T>(problem, launch.device, launch.queries(), of_unit);
        // Where units hand over, no sums are kept, however many segments a slice of the query rows has with a window.
        const bool hands_over = !by_lengths && shares.are_larger_than(of_unit);
        lay_out<T>(args.scratch, launch.scratch, shares.blocks, hands_over ? 0 : kept_segments(shares, of_unit));
        int warps = T::warps(launch.device.shared_bytes);
        const int64_t units = units_of<T>(problem, launch.queries());
        const int64_t multiprocessors = launch.device.multiprocessors;
        const StripePlan stripes = stripe_plan<T>(problem, launch.device, units, of_unit);
        const int64_t few = stripes.blocks > 0 ? kMostOfOneBlock : 2 * warps;
        args.by_units =
            (has_few_segments(of_unit) && units <= 8 * multiprocessors) || (units <= multiprocessors && of_unit <= few);
        if (!args.by_units && stripes.blocks > 0 && launch_striped<T>(args, launch, stripes, stream)) return 0;
        if (args.by_units) warps = static_cast<int>(std::min<int64_t>(warps, of_unit));
        const auto blocks = static_cast<unsigned>(args.by_units ? units : shares.blocks);
        const auto threads = static_cast<unsigned>(warps * kWarpSize);
        const size_t bytes = T::bytes(warps);
        const auto segments = segments_kernel<T>;
        // The most of any launch: another thread may be about to launch the same function with more warps.
        const auto most_bytes = static_cast<int>(T::bytes(T::warps(launch.device.shared_bytes)));
        HW4_CUDA(cudaFuncSetAttribute(segments, cudaFuncAttributeMaxDynamicSharedMemorySize, most_bytes));
        if (!args.by_units && (by_lengths || hands_over))
            HW4_CUDA(cudaMemsetAsync(args.scratch.handed_over, 0, shares.blocks * sizeof(unsigned), stream));
        segments<<<blocks, threads, bytes, stream>>>(args, false);
        HW4_CUDA_LAUNCHED("segments_kernel");
        if (args.by_units || hands_over) return 0;
        segments<<<blocks, threads, bytes, stream>>>(args, true);
        HW4_CUDA_LAUNCHED("segments_kernel");
        const auto folds = static_cast<unsigned>(std::min(shares.blocks, units));
        launch_fold(args, problem.element, shares.blocks, folds, T::kRows, T::kDim, stream);
        return 0;
    });
}

} // namespace hw4::gpu::split
