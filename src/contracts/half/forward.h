// The contracts "bf16" and "fp16": attention on 16-bit numbers, as tensor cores compute it. Only their types differ
// (src/base/float_bits.h).
//
//   input    every number of Q, K and V is rounded to the type, to nearest even. A number that would become infinite is
//            refused (domain.h): |x| >= 65520 for fp16, >= 0x1.ffp127 for bf16. Files with elements of
//            the type need no rounding.
//   score    products of two such numbers are exact in float32 (16 and 22 bits) unless they sink below its normal
//            numbers, which only happens with bf16; their sums are float32.
//   softmax  in float32, base 2, with c = log2(e) * scale. Weights may be rounded to the type for the second product.
//   output   sums of weight times v in float32, divided by the sum of the weights, rounded to the type at the end, to
//            nearest even. Files with float32 elements hold values of the type.
//   mask     a key that a row does not see does not exist for it; a row that sees none gives O = +0.
//   lse      from the sums in float32, not rounded.
//
// An output is compared by a bound: its largest error against float64, which is computed from the rounded inputs, is at
// most the bound of the case in testcases/bounds.tsv, 1.2 times the error of FlashAttention-2 on the same inputs, in a
// batch that fills the GPU. So an engine may choose its order of additions, its tiles and its exponential, but must
// keep its choice: a row's bytes depend only on its query, the keys and the values that it sees and their number, not
// on the run, the threads, the batch, or the rows beside it. The GPU has one kernel for up to 16 queries per head and
// for lengths by sequence (decode), and another for more queries (prefill): each keeps the promise, their bytes differ.
//
// The bound is around the reference: the contract f32 (src/contracts/f32/forward.h), every operation in its order, on
// the rounded inputs, with O rounded. Weights stay float32 there. On the CPU the kernels of f32 compute exactly that on
// widened numbers and have its bytes: all kernels of fp16, and kernels of bf16 outside src/cpu/half, where kernels
// multiply bf16 numbers themselves and are within the bound. The error: with u = 2^-8 for bf16 and 2^-11 for fp16, |O|
// <= max|V| gives at most u*max|V|, or half the least denormal if that is more, for the last rounding, besides f32's
// own error, which is thousands of times smaller than u for moderate scores.
//
// Backward, the gradients dQ, dK, dV of sum(O * dO), continues from there.
//
//   input    every number of Q, K, V and dO is rounded to the type, or refused, as forward's are.
//   row i    from its scores the largest, the sum of its weights, and O, which may be the rounded O of forward;
//            D_i = sum(dO_i * O_i) in float32.
//   pair     P = exp2(c * score - the row's logsumexp in base 2), dP = dO_i . v_j, dS = P * (dP - D_i), in float32.
//            P and dS may be rounded to the type before the products that they enter.
//   sums     dV_j = sum_i P dO_i, dK_j = sum_i dS q_i, dQ_i = sum_j dS k_j in float32; dK and dQ times the scale at the
//            end. Heads that share keys and values: their dK and dV are added in float32, before any rounding.
//   output   rounded to the type at the end, to nearest even. A gradient that would become infinite there, which only
//            happens with fp16, is refused (exit code 65), for files of the type and of float32: larger numbers, or
//            many queries that look at one key, cause it. A gradient of a dS that was rounded to infinity is refused,
//            too.
//   mask     a pair that the mask hides does not exist. A query that sees no key has dQ = +0; a key that no query sees
//            has dK = dV = +0.
//
// Each of the three is compared by a bound of its own (testcases/bounds.tsv), as O is. An engine must keep its choices:
// the bytes of a head's gradients depend only on the numbers of that head and of the heads that share its keys, not on
// the run, the threads or the batch. So a kernel that computes pairs key block by key block, and adds each block's part
// to dQ, adds in a fixed order: from the last block that the query sees down to the first, each neighbour a tile ahead
// of the next, or another order that only the sizes decide, never in the order of arrival.
//
// The bound is around the reference: the contract f32 (src/contracts/f32/backward.h), every operation in its order, on
// the rounded inputs, with its own O, P and dS in float32, and its gradients rounded. The CPU engine has exactly these
// bytes.
#pragma once

#include "src/contracts/f32/backward.h"
#include "src/problem/domain.h"

namespace hw4::half {

// The domain of f32: the roundings of an input, of P and of dS, by at most 2^-8, together take less than the factor of
// 2 that is left below the largest float32.
constexpr Domain domain_of(Element element) {
    return {.most_score = kScoreLimit, .most_sum = kValueLimit, .most_gradient = kGradientLimit, .element = element};
}

} // namespace hw4::half
