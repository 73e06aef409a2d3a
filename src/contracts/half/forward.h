// The contracts "bf16" and "fp16": attention on numbers of 16 bits, as tensor cores compute it. They differ in the type
// alone (src/base/float_bits.h).
//
//   input    every number of Q, K and V is rounded to the type, to nearest even. One that would become infinite is
//            refused (domain.h): |x| >= 65520 for fp16, >= 0x1.ffp127 for bf16. Numbers of a file that has elements of
//            the type are taken as they are.
//   score    products of two such numbers are exact in float32 (16 and 22 bits) unless they sink below its normal
//            numbers, as only bf16's can; their sums are float32.
//   softmax  in float32, base 2, with c = log2(e) * scale. What reaches the second product may be rounded to the type.
//   output   sums of weight times v in float32, divided by the sum of the weights, rounded to the type at the end, to
//            nearest even. Where the file has float32 elements, they hold values of the type.
//   mask     a key that a row does not see does not exist for it; a row that sees none gives O = +0.
//   lse      from the sums in float32, not rounded.
//
// An output is compared by a bound: its largest error against float64, which is computed from the rounded inputs, is at
// most what testcases/bounds.tsv says for the case, 1.2 times that of FlashAttention-2 on the same inputs, in a batch
// that fills the card. So an engine
// may choose its order of additions, its tiles and its exponential; what it chooses it has to keep: a row's bytes
// depend on its query, the keys and the values that it sees and their number alone, not on the run, the threads, the
// batch, or the rows beside it. The GPU has one kernel for up to 16 queries a head and for lengths by sequence
// (decode), and another for more queries (prefill): each keeps that promise, but the two have different bytes.
//
// The centre of the bound is the reference: the contract f32 (src/contracts/f32/forward.h), every operation in its
// order, on the rounded inputs, and its O rounded. Weights stay float32 there. On the CPU the kernels of f32 compute
// just that on widened numbers, and have its bytes: of fp16 all there are, of bf16 those
// that are not in src/cpu/half, which multiply such numbers themselves and are within the bound. Its error: with u =
// 2^-8 for bf16 and 2^-11 for fp16, |O| <= max|V| gives at most u*max|V|, or half the least denormal where that is
// more, for the last rounding, beside f32's own error, which is thousands of times smaller than u where scores are
// moderate.
//
// Backward, the gradients dQ, dK, dV of sum(O * dO), goes on from there.
//
//   input    every number of Q, K, V and dO is rounded to the type, or refused, as forward's are.
//   row i    of its scores the largest, the sum of its weights, and O, which may be the rounded one that forward gives;
//            D_i = sum(dO_i * O_i) in float32.
//   pair     P = exp2(c * score - the row's logsumexp in base 2), dP = dO_i . v_j, dS = P * (dP - D_i), in float32.
//            Before the product that it enters, P may be rounded to the type, and so may dS.
//   sums     dV_j = sum_i P dO_i, dK_j = sum_i dS q_i, dQ_i = sum_j dS k_j in float32; dK and dQ times the scale at the
//            end. Heads that share keys and values: their dK and dV are added in float32, before any rounding.
//   output   rounded to the type at the end, to nearest even. A gradient that would become infinite there, as only
//            fp16's can, is refused (exit code 65), be the file's elements of the type or float32: larger numbers, or
//            many queries that look at one key, lead there. So is one of a dS that was rounded to infinity on its way.
//   mask     a pair that the mask hides does not exist. A query that sees no key has dQ = +0; a key that no query sees
//            has dK = dV = +0.
//
// Each of the three is compared by a bound of its own (testcases/bounds.tsv), as O is. What an engine chooses it has to
// keep: the bytes of a head's gradients depend on the numbers of that head and of those that share its keys alone, not
// on the run, the threads or the batch. So whoever computes pairs key block by key block, and adds to dQ what each has
// for it, adds in an order: from the last block that the query sees down to the first, each neighbour a tile ahead of
// the next, or another that only sizes decide; and no addition goes to who comes first.
//
// The centre of the bound is the reference: the contract f32 (src/contracts/f32/backward.h), every operation in its
// order, on the rounded inputs, with its own O, P and dS as float32 has them, and its gradients rounded. The engine of
// the CPU computes just that, and has its bytes.
#pragma once

#include "src/contracts/f32/backward.h"
#include "src/problem/domain.h"

namespace hw4::half {

// That of f32: the roundings of an input, of P and of dS, by 2^-8 at most, together take less than the factor of 2 that
// is left to float32's end.
constexpr Domain domain_of(Element element) {
    return {.most_score = kScoreLimit, .most_sum = kValueLimit, .most_gradient = kGradientLimit, .element = element};
}

} // namespace hw4::half
