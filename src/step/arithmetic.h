// The contract "f32.step/1": every rounding of a training step, from parameters and tokens to the next parameters.
//
// Rounded once means IEEE binary32 to nearest even, denormals kept; doubles are binary64. fused() is one rounding,
// every other operation has its own. Quotients and roots are rounded once each. orders.h defines how numbers are added
// up (K-SUM, TOKEN-SUM, ROW-SUM); this header defines everything that is computed element by element.
//
//   embedding   x = the token's row of the table. dE = TOKEN-SUM of dX over the tokens of each row, terms added.
//   linear      Y = K-SUM over inputs of fused(x, w, .); with a residual: Y = residual + that, one addition more.
//               dX = K-SUM over outputs of fused(dy, w, .), the matrices of one input as one: q, k, v; gate, up.
//               dW = TOKEN-SUM of fused(dy, x, .).
//   RMSNorm     s = ROW-SUM fused(x, x, .); r = 1 / sqrt(fused(s, 1/width, eps)); y = (x * r) * gain.
//               h = dy * gain; s = ROW-SUM fused(h, x, .); k = ((r * r) * s) * (1/width);
//               dX = dX + r * fused(-x, k, h). dgain = TOKEN-SUM fused(dy, x * r, .).
//   RoPE        columns 2i and 2i + 1 of q and k by rotate() (src/contracts/rope.h); backward with the negative sine.
//   attention   contract f32 (src/contracts/f32/), causal, forward and backward, each sequence and head for itself.
//   SwiGLU      q = sigmoid(u); h = (u * q) * v; dv = dh * (u * q); du = (dh * v) * (q * fused(u, 1 - q, 1)).
//   loss        of a row of logits z with target y: m = the largest, M = m * log2(e) rounded to an integer,
//               w = e^z / 2^M, no w below about 2^-120; l = ROW-SUM of w, added;
//               loss = ln2 * (M + log2(l)) - z_y in doubles; dz = (w * (1 / l) - [is y]) * share, share = 1 / (tokens
//               of the global batch). A sequence's losses are added in doubles, ascending; sequences by tree_sum().
//   clip        n2 = the doubles' sum of squares (orders.h), tensors in order;
//               factor = min(1, most / (sqrt(n2) + 1e-6)) in doubles, rounded once to a float.
//   AdamW       g = g * factor, also where the factor is 1; then adamw() below. Its coefficients are computed in
//               doubles by + - * / sqrt alone and rounded once.
//
// The contract "bf16.step/1" is this one but for products and attention, in mixed precision: memory stays float32.
//   linear      both factors of each of the three products are rounded to bf16, to nearest even; sums and the residual
//               are float32. On CPUs K-SUM and TOKEN-SUM of the rounded factors, so that all have the same bytes; on
//               GPUs cuBLASLt's order, where the tokens of a micro-batch are one leaf of TOKEN-SUM.
//   attention   contract bf16, forward and backward; on CPUs its reference's bytes.
// The same GPU with the same cuBLAS has the same bytes on every run, and so has every number of ranks with the same
// micro-batches.
//
// A NaN's bytes differ between machines, so a step is refused before AdamW when its loss or n2 is not finite. A NaN
// among the logits, or a largest logit beyond +-2^21 / log2(e), makes the loss NaN or infinite.
//
// The rules for code that includes this file are in src/contracts/f32/forward.h. No sum is ever -0, since each begins
// with +0, so zeros may be padded anywhere.
#pragma once

#include <cmath>
#include <cstdint>

#include "src/contracts/f32/forward.h"
#include "src/contracts/logsumexp.h"
#include "src/step/configuration.h"

namespace hw4::step {

HW4_INLINE float quotient(float a, float b) {
#if defined(__CUDA_ARCH__)
    return __fdiv_rn(a, b);
#else
    return a / b;
#endif
}

HW4_INLINE float root(float a) {
#if defined(__CUDA_ARCH__)
    return __fsqrt_rn(a);
#else
    return std::sqrt(a);
#endif
}

// ---- exp

// log2(e) in two floats, to 2^-50. With one alone the error of silu(-30) would be 2.5 times as large.
constexpr float kLog2E = 0x1.715476p+0f;
constexpr float kLog2ERest = 0x1.4ae0cp-26f;

// e^x / 2^M, given bias = kRoundToInt - M: forward.h's exp2_scaled() with the longer log2(e).
HW4_INLINE float exp_scaled(float x, float bias) {
    const float t = fused(x, kLog2E, bias);
    const float n = t - bias;
    const float r = fused(x, kLog2ERest, fused(x, kLog2E, -n));
    return add_exponent(exp2_fraction(r), t);
}

// ---- RMSNorm

constexpr float kNormEpsilon = 1e-5f;

HW4_INLINE float inverse_of_width(int64_t width) { return quotient(1.0f, static_cast<float>(width)); }

// 1 / rms of a row with this sum of squares.
HW4_INLINE float norm_factor(float squares, float inverse_width) {
    return quotient(1.0f, root(fused(squares, inverse_width, kNormEpsilon)));
}
HW4_INLINE float normalized(float x, float r, float gain) { return (x * r) * gain; }

// The row's factor k from the sum of h * x.
HW4_INLINE float norm_back_factor(float r, float sum, float inverse_width) { return ((r * r) * sum) * inverse_width; }
HW4_INLINE float norm_gradient(float x, float h, float r, float k) { return r * fused(-x, k, h); }

// ---- SwiGLU

// Beyond +-87, where e^u would leave the normal floats, the sigmoid stays what it is there.
constexpr float kSigmoidReach = 87.0f;

HW4_INLINE float sigmoid(float u) {
    const float low = u < -kSigmoidReach ? -kSigmoidReach : u;
    const float x = low > kSigmoidReach ? kSigmoidReach : low;
    return quotient(1.0f, 1.0f + exp_scaled(-x, kRoundToInt));
}

HW4_INLINE float swiglu(float u, float v) { return (u * sigmoid(u)) * v; }

struct SwigluGradient {
    float du, dv;
};

HW4_INLINE SwigluGradient swiglu_gradient(float u, float v, float dh) {
    const float q = sigmoid(u);
    return {(dh * v) * (q * fused(u, 1.0f - q, 1.0f)), dh * (u * q)};
}

// ---- Cross entropy

// What a row's weights are measured against, from its largest logit.
struct LogitUnit {
    float M;
    float bias;
    float floor; // a logit below it weighs as if it were this

    // A NaN stays one, and makes the row's sum a NaN. exp_scaled() alone would not do: the bits of a GPU's NaN give a
    // finite number when an exponent is added to them.
    HW4_INLINE float weight(float z) const {
        const float weight = exp_scaled(z < floor ? floor : z, bias);
        return z != z ? z : weight;
    }
};

HW4_INLINE LogitUnit logit_unit(float largest) {
    const float M = fused(largest, kLog2E, kRoundToInt) - kRoundToInt;
    return {M, kRoundToInt - M, (M + kDeepest) * 0x1.62e43p-1f}; // ln2
}

// l is the sum of the row's weights.
HW4_INLINE double cross_entropy_loss(const LogitUnit& unit, float l, float target_logit) {
    if (!within(unit.M, -kIntegerReach, kIntegerReach)) return HUGE_VAL;
    return 0x1.62e42fefa39efp-1 * (unit.M + log2_of(l)) - target_logit;
}

HW4_INLINE float logit_gradient(float weight, float inverse_l, bool is_target, float share) {
    const float p = weight * inverse_l;
    return (is_target ? p - 1.0f : p) * share;
}

// ---- Clip and AdamW

inline float clip_factor(double squares, double most_norm) {
    const double factor = most_norm / (std::sqrt(squares) + 1e-6);
    return static_cast<float>(factor < 1 ? factor : 1);
}

struct Adam {
    float one_less_beta1;
    float beta2;
    float one_less_beta2;
    float root_scale; // 1 / sqrt(1 - beta2^t)
    float step;       // -learning_rate / (1 - beta1^t)
    float decay;      // -learning_rate * weight_decay
    float epsilon;
    float clip;
};

// base^exponent by squares and products, from the lowest bit up.
inline double whole_power(double base, int64_t exponent) {
    double power = 1;
    for (; exponent > 0; exponent >>= 1) {
        if ((exponent & 1) != 0) power = power * base;
        base = base * base;
    }
    return power;
}

// The coefficients of step t = 1, 2, ..., with the learning rate of this step.
inline Adam adam_of(const Configuration& of, double learning_rate, int64_t t, float clip) {
    return {static_cast<float>(1 - of.beta1),
            static_cast<float>(of.beta2),
            static_cast<float>(1 - of.beta2),
            static_cast<float>(1 / std::sqrt(1 - whole_power(of.beta2, t))),
            static_cast<float>(-(learning_rate / (1 - whole_power(of.beta1, t)))),
            static_cast<float>(-(learning_rate * of.weight_decay)),
            static_cast<float>(of.eps),
            clip};
}

HW4_INLINE void adamw(float& p, float gradient, float& m, float& v, const Adam& a) {
    const float g = gradient * a.clip;
    m = fused(g - m, a.one_less_beta1, m);
    v = fused(v, a.beta2, (g * g) * a.one_less_beta2);
    const float d = fused(root(v), a.root_scale, a.epsilon);
    p = fused(quotient(m, d), a.step, fused(p, a.decay, p));
}

} // namespace hw4::step
