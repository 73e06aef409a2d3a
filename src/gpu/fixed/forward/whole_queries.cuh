// A group's rows of Q, of as many columns as a kernel has, on their way from memory.
#pragma once

#include "src/gpu/fixed/forward/queries.cuh"

namespace hw4::gpu::fixed_point {

template <class T>
class WholeQueries {
public:
    using Stored = typename T::Stored;

    // From a job's rows, so many numbers apart, of which there are `rows`. One that does not exist is the last one:
    // nobody looks at what becomes of it, and without a condition there is nothing to wait for.
    __device__ __forceinline__ void fetch(const Stored* job, uint32_t stride, int rows, int group) {
        const Stored* const from = job + Digits::column(0);
#pragma unroll
        for (int step = 0; step < Digits::kSteps; ++step) {
            const int row = min(group * kGroupRows + Digits::row(step), rows - 1);
            x_[step] =
                __ldcg(reinterpret_cast<const Four<Stored>*>(from + uint64_t{static_cast<uint32_t>(row)} * stride));
        }
    }

    // By all of a group. The facts are those of the head that the rows look at.
    __device__ __forceinline__ void store(const ForwardArgs& args, Queries<typename T::Rules, T::kDim>& to,
                                          const HeadFacts& facts) const {
        typename Digits::Rows rows;
#pragma unroll
        for (int step = 0; step < Digits::kSteps; ++step) rows[step][0] = floats(args, x_[step]);
        Digits::store(to, 0, rows, args.scale.c, facts);
        if (Digits::thread() == 0) to.least_value = facts.v.smallest();
    }

private:
    using Digits = QueryDigits<typename T::Rules, T::kDim, T::kManyJobs>;
    static_assert(!T::Rules::kNeedsLengths);
    static_assert(Digits::kAhead == Digits::kSteps && Digits::kParts == 1, "all are fetched at once");

    Four<Stored> x_[Digits::kSteps];

    static __device__ __forceinline__ float4 floats(const ForwardArgs&, float4 x) { return x; }
    static __device__ __forceinline__ float4 floats(const ForwardArgs& args, uint2 x) {
        return args.element == Element::bf16 ? widened<Bf16>(x) : widened<Fp16>(x);
    }
};

} // namespace hw4::gpu::fixed_point
