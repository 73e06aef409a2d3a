// A group's rows of Q on their way from memory, as ComingQueries (queries.cuh), fetched by conditions rather than in
// branches: where branches meet, numbers may have to change registers, and for that memory would be waited for.
#pragma once

#include "src/gpu/fixed/forward/queries.cuh"

namespace hw4::gpu::fixed_point {

template <class Rules, int kDim>
class ConditionalQueries {
public:
    // Rows that do not exist are zeros.
    __device__ __forceinline__ void fetch(const ForwardArgs& args, const GroupRows& where) {
        from_ = where.query<Rules>(args, Digits::row(0));
        rows_ = where.rows;
        const bool narrow = args.is_narrow();
        const size_t element = narrow ? sizeof(uint16_t) : sizeof(float);
        const char* from = static_cast<const char*>(from_);
#pragma unroll
        for (int step = 0; step < Digits::kSteps; ++step) {
            const int column = Digits::column(0);
            const bool there = is_aligned(args) && Digits::row(step) < rows_ && column < args.dim;
            const char* const at = from + static_cast<size_t>(column) * element;
            x_[step][0] = fetched4(at, there && !narrow);
            narrow_[step] = fetched2(at, there && narrow);
            from += static_cast<size_t>(Digits::kRowsAtOnce) * args.q.row * element;
        }
    }

    // By all of a group. The facts are those of the head that the rows look at.
    __device__ __forceinline__ void store(const ForwardArgs& args, Queries<Rules, kDim>& to, const HeadFacts& facts) {
        if (__builtin_expect(!is_aligned(args), 0)) load_unaligned(args);
        if (args.element == Element::bf16) widen<Bf16>();
        if (args.element == Element::fp16) widen<Fp16>();
        Digits::store(to, 0, x_, args.scale.c, facts);
        if (Digits::thread() == 0) to.least_value = facts.v.smallest();
    }

private:
    using Digits = QueryDigits<Rules, kDim>;
    static_assert(Rules::kTakesNarrow && !Rules::kNeedsLengths);
    static_assert(Digits::kAhead == Digits::kSteps && Digits::kParts == 1, "all are fetched at once");

    const void* from_; // the thread's first row
    int rows_;
    typename Digits::Rows x_;
    uint2 narrow_[Digits::kSteps]; // of 16 bits, until they are widened

    // Whether rows are whole pieces of four.
    static __device__ __forceinline__ bool is_aligned(const ForwardArgs& args) { return args.dim % 4 == 0; }

    // As many words, or zeros.
    static __device__ __forceinline__ float4 fetched4(const char* from, bool there) {
        float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        asm volatile("{\n"
                     ".reg .pred there;\n"
                     "setp.ne.u32 there, %5, 0;\n"
                     "@there ld.global.v4.f32 {%0, %1, %2, %3}, [%4];\n"
                     "}\n"
                     : "+f"(x.x), "+f"(x.y), "+f"(x.z), "+f"(x.w)
                     : "l"(from), "r"(static_cast<unsigned>(there)));
        return x;
    }
    static __device__ __forceinline__ uint2 fetched2(const char* from, bool there) {
        uint2 x = make_uint2(0, 0);
        asm volatile("{\n"
                     ".reg .pred there;\n"
                     "setp.ne.u32 there, %3, 0;\n"
                     "@there ld.global.v2.u32 {%0, %1}, [%2];\n"
                     "}\n"
                     : "+r"(x.x), "+r"(x.y)
                     : "l"(from), "r"(static_cast<unsigned>(there)));
        return x;
    }

    // Number by number, when they are needed.
    __device__ void load_unaligned(const ForwardArgs& args) {
        if (args.is_narrow())
            load_numbers<uint16_t>(args, [&](int step) -> uint2& { return narrow_[step]; });
        else
            load_numbers<float>(args, [&](int step) -> float4& { return x_[step][0]; });
    }
    template <class Stored, class PieceAt>
    __device__ __forceinline__ void load_numbers(const ForwardArgs& args, const PieceAt& piece) {
        const Stored* from = static_cast<const Stored*>(from_);
#pragma unroll
        for (int step = 0; step < Digits::kSteps; ++step) {
            piece(step) =
                Digits::row(step) < rows_ ? four_columns(from, Digits::column(0), args.dim, false) : Four<Stored>{};
            from += Digits::kRowsAtOnce * args.q.row;
        }
    }

    template <class Number>
    __device__ __forceinline__ void widen() {
#pragma unroll
        for (int step = 0; step < Digits::kSteps; ++step) x_[step][0] = widened<Number>(narrow_[step]);
    }
};

} // namespace hw4::gpu::fixed_point
