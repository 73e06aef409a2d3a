#include "tests/fuzz/drawn_case.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "src/base/error.h"
#include "src/contracts/contract.h"
#include "src/contracts/f32/backward.h"
#include "src/io/case_values.h"
#include "src/problem/domain.h"
#include "src/problem/words.h"

namespace hw4::fuzz {
namespace {

constexpr int64_t kMostDim = 256;                // the limit of the GPU kernels and of the contract fixed
constexpr int64_t kUsualWork = int64_t{1} << 22; // multiply-adds of each product: small, to try many cases
constexpr int64_t kLargeWork = int64_t{1} << 27;

int64_t draw_dim(Random& random) {
    switch (random.within(0, 9)) {
    case 0:
    case 1:
    case 2: return random.within(1, 16);
    case 3:
    case 4: return random.within(1, 64);
    case 5: return random.within(65, kMostDim);
    case 6: return 4 * random.within(1, kMostDim / 4);
    case 7: return std::min(32 * random.within(1, 8) + random.within(-1, 1), kMostDim);
    default: return random.pick<int64_t>({32, 64, 128, 256});
    }
}

int64_t draw_tokens(Random& random) {
    switch (random.within(0, 9)) {
    case 0: return random.within(1, 4);
    case 1:
    case 2:
    case 3: return random.within(1, 40);
    case 4:
    case 5: return random.within(1, 140);
    case 6: return random.within(140, 800);
    default: return std::max<int64_t>(32 * random.within(0, 9) + random.within(-1, 1), 1);
    }
}

// Reduces batches, then columns, until there is no more work than this.
Problem bounded(Problem problem, int64_t most) {
    const int64_t squares = problem.queries * problem.queries;
    problem.batches = std::clamp<int64_t>(most / (squares * problem.dim), 1, problem.batches);
    problem.dim = std::clamp<int64_t>(most / (squares * problem.batches), 1, problem.dim);
    return problem;
}

Problem draw_problem(Random& random) {
    if (random.one_in(80)) // query rows in slices
        return bounded({random.within(1, 2), random.within(1025, 3300), draw_dim(random)}, kLargeWork);
    if (random.one_in(120)) // enough batches to fill a GPU
        return bounded({random.within(60, 300), random.within(33, 200), draw_dim(random)}, kLargeWork);
    if (random.one_in(20)) return bounded({random.within(1, 500), random.within(1, 20), draw_dim(random)}, kUsualWork);
    return bounded({random.one_in(2) ? 1 : random.within(1, 5), draw_tokens(random), draw_dim(random)}, kUsualWork);
}

enum class Kind { uniform, normal, heavy, integers, powers, denormals, equal, few, zeros, one_huge, any_exponent };
constexpr int kKinds = 11;

Kind draw_kind(Random& random) { return static_cast<Kind>(random.within(0, kKinds - 1)); }

float with_sign(Random& random, float magnitude) { return random.one_in(2) ? magnitude : -magnitude; }

float draw_normal(Random& random) { // roughly: the sum of twelve uniform numbers
    int64_t sum = 0;
    for (int i = 0; i < 3; ++i) {
        const uint64_t word = random.next();
        for (int piece = 0; piece < 64; piece += 16) sum += static_cast<int64_t>(word >> piece & 0xffff);
    }
    return static_cast<float>(sum - 6 * 65535) * 0x1p-16f;
}

// Every doubling of the size is half as frequent; there is no mean.
float draw_heavy(Random& random) {
    const int exponent = __builtin_ctzll(random.next() | uint64_t{1} << 40) - 1;
    return std::ldexp(random.signed_unit(), exponent);
}

float draw_any_exponent(Random& random) {
    const int exponent = static_cast<int>(random.within(-149, 60)); // a statement of its own: arguments have no order
    return std::ldexp(random.signed_unit(), exponent);
}

float draw_value(Kind kind, Random& random) {
    switch (kind) {
    case Kind::normal: return draw_normal(random);
    case Kind::heavy: return draw_heavy(random);
    case Kind::integers: return static_cast<float>(random.within(-8, 8));
    case Kind::powers: return with_sign(random, std::ldexp(1.0f, static_cast<int>(random.within(-12, 12))));
    case Kind::denormals: return with_sign(random, float_of(static_cast<uint32_t>(random.within(0, (1 << 23) - 1))));
    case Kind::zeros: return random.one_in(4) ? random.signed_unit() : with_sign(random, 0.0f);
    case Kind::one_huge: return random.signed_unit();
    case Kind::any_exponent: return draw_any_exponent(random);
    default: return 3.0f * random.signed_unit();
    }
}

using Matrix = std::vector<float>;

Matrix draw_matrix(Kind kind, size_t count, Random& random) {
    Matrix matrix(count);
    for (float& x : matrix) x = draw_value(kind, random);
    if (kind == Kind::equal) std::fill(matrix.begin(), matrix.end(), matrix[0]);
    if (kind == Kind::few)
        for (float& x : matrix)
            x = matrix[static_cast<size_t>(random.within(0, std::min<int64_t>(3, static_cast<int64_t>(count)) - 1))];
    if (kind == Kind::one_huge)
        matrix[static_cast<size_t>(random.within(0, static_cast<int64_t>(count) - 1))] =
            with_sign(random, std::ldexp(1.0f, static_cast<int>(random.within(8, 60))));
    return matrix;
}

// Draws one kind of values, or two kinds mixed element by element.
Matrix draw_values(size_t count, Random& random) {
    Matrix matrix = draw_matrix(draw_kind(random), count, random);
    if (!random.one_in(5)) return matrix;
    const Matrix others = draw_matrix(draw_kind(random), count, random);
    const int64_t rarity = random.pick<int64_t>({2, 10, 100});
    for (size_t i = 0; i < count; ++i)
        if (random.one_in(rarity)) matrix[i] = others[i];
    return matrix;
}

// ---- One batch

class Batch {
public:
    Batch(const Problem& problem, bool strays, Random& random)
        : problem_(problem), random_(random), q_(draw_values(count(), random)), k_(draw_values(count(), random)),
          v_(draw_values(count(), random)) {
        order_scores();
        aim_scores();
        if (strays) {
            multiply_rows(q_);
            multiply_rows(k_);
        }
        move_values();
        fit_scores();
        fit_values();
    }

    void write(float* to) const {
        for (const Matrix* matrix : {&q_, &k_, &v_}) to = std::copy(matrix->begin(), matrix->end(), to);
    }

private:
    size_t count() const { return problem_.batch_output_floats(); }

    // Gives scores that rise or fall with the key, linearly or in jumps, so that a row's reference moves; or scores of
    // one sign; or scores of a single product.
    void order_scores() {
        const auto n = problem_.queries;
        const auto d = problem_.dim;
        switch (random_.within(0, 7)) {
        case 0: {
            const float step = static_cast<float>(random_.pick<int64_t>({1, 8, 64})) / static_cast<float>(n);
            for (int64_t j = 0; j < n; ++j)
                for (int64_t t = 0; t < d; ++t) at(k_, j, t) += step * static_cast<float>(2 * j - n);
            for (float& x : q_) x = std::fabs(x);
            break;
        }
        case 1: {
            const int64_t every = random_.pick<int64_t>({5, 31, 32, 33, 64, 100});
            int exponent = static_cast<int>(random_.within(-4, 0));
            for (int64_t j = 0; j < n; ++j) {
                if (j % every == every - 1) exponent += static_cast<int>(random_.within(-1, 3));
                for (int64_t t = 0; t < d; ++t) at(k_, j, t) = std::ldexp(at(k_, j, t), exponent);
            }
            break;
        }
        case 2:
            for (float& x : q_) x = std::fabs(x);
            for (float& x : k_) x = -std::fabs(x);
            break;
        case 3:
            for (int64_t j = 0; j < n; ++j)
                for (int64_t t = 1; t < d; ++t) at(k_, j, t) = 0.0f;
            break;
        default: break;
        }
    }

    // Moves the largest score of some rows close to each threshold of the contract, from both sides, in base-2 units.
    void aim_scores() {
        if (random_.one_in(4)) return;
        const double target = random_.pick({0.01, 1.0,         6.0,    7.5,         8.5,   20.0,  60.0,   70.5,  71.5,
                                            72.5, 73.5,        100.0,  119.0,       121.0, 125.0, 145.0,  200.0, 1000.0,
                                            1e5,  0x1p21 - 60, 0x1p21, 0x1p21 + 60, 1e7,   1e12,  0x1p100});
        double highest = 0;
        for (int i = 0; i < 3; ++i) {
            const int64_t row = random_.within(0, problem_.queries - 1);
            for (int64_t j = 0; j < problem_.queries; ++j) highest = std::max(highest, std::fabs(score(row, j)));
        }
        if (highest == 0) return;
        int exponent = 0;
        const double factor = std::frexp(target / (highest * double{scale_for(problem_.dim).c}), &exponent);
        const int of_q = exponent / 2;
        for (float& x : q_) x = bounded_float(std::ldexp(double{x} * factor, of_q));
        for (float& x : k_) x = bounded_float(std::ldexp(double{x}, exponent - of_q));
    }

    double score(int64_t row, int64_t key) {
        double sum = 0;
        for (int64_t t = 0; t < problem_.dim; ++t) sum += double{at(q_, row, t)} * double{at(k_, key, t)};
        return sum;
    }

    // Multiplies some rows by one factor, or each row by its own power of two: scores stray in single rows, in groups
    // of neighbours, or at single keys.
    void multiply_rows(Matrix& matrix) {
        if (random_.one_in(4)) return;
        const int64_t group = random_.pick<int64_t>({1, 1, 1, 16, 32, 64}); // rows with the same factor
        const int64_t rarity = random_.pick<int64_t>({1, 2, 8, 32, 100});
        const double factor = random_.pick({-60.0, 0x1p-20, 2.0, 8.0, 60.0, 100.0, 1e3, 1e6, 1e9});
        const bool each_its_own = random_.one_in(3);
        for (int64_t first = 0; first < problem_.queries; first += group) {
            const int exponent = static_cast<int>(random_.within(-8, 22));
            if (!random_.one_in(rarity)) continue;
            const double by = each_its_own ? std::ldexp(1.0, exponent) : factor;
            for (int64_t row = first; row < std::min(first + group, problem_.queries); ++row)
                for (int64_t t = 0; t < problem_.dim; ++t)
                    at(matrix, row, t) = bounded_float(double{at(matrix, row, t)} * by);
        }
    }

    // Makes V much larger or smaller than one; sums may become denormal.
    void move_values() {
        if (random_.one_in(2)) return;
        const int exponent = static_cast<int>(random_.pick<int64_t>({-140, -126, -100, -60, -48, -20, 20, 45}));
        for (float& x : v_) x = bounded_float(std::ldexp(double{x}, exponent));
    }

    // Scales by powers of two into the domain, sometimes to just below its limit.
    void fit_scores() {
        for (float& x : q_) x = bounded_float(x);
        for (float& x : k_) x = bounded_float(x);
        double row_sum = 0;
        for (int64_t row = 0; row < problem_.queries; ++row) {
            double sum = 0;
            for (int64_t t = 0; t < problem_.dim; ++t) sum += std::fabs(double{at(q_, row, t)});
            row_sum = std::max(row_sum, sum);
        }
        const double order = 1 + 0x1p-40; // for the order of the sum: the domain check adds in another one
        const int over = std::max(exponent_above(row_sum * largest(k_) * order, kScoreLimit),
                                  exponent_above(largest(k_), 0x1p126)); // K itself has to stay finite
        const bool to_the_limit = over < 0 && random_.one_in(12);
        if (over > 0 || to_the_limit)
            for (float& x : k_) x = std::ldexp(x, -over);
    }

    void fit_values() {
        for (float& x : v_) x = bounded_float(x);
        const int over = exponent_above(static_cast<double>(problem_.queries) * largest(v_), kValueLimit);
        const bool to_the_limit = over < 0 && random_.one_in(12);
        if (over > 0 || to_the_limit)
            for (float& x : v_) x = std::ldexp(x, -over);
    }

    // Returns the least e with x * 2^-e <= limit, a power of two; 0 for 0.
    static int exponent_above(double x, double limit) {
        if (x == 0) return 0;
        int exponent = 0;
        const double fraction = std::frexp(x / limit, &exponent);
        return fraction == 0.5 ? exponent - 1 : exponent;
    }

    static float bounded_float(double x) { return static_cast<float>(std::clamp(x, -0x1p110, 0x1p110)); }

    static double largest(const Matrix& matrix) {
        double most = 0;
        for (const float x : matrix) most = std::max(most, std::fabs(double{x}));
        return most;
    }

    float& at(Matrix& matrix, int64_t row, int64_t column) const {
        return matrix[static_cast<size_t>(row * problem_.dim + column)];
    }

    const Problem& problem_;
    Random& random_;
    Matrix q_;
    Matrix k_;
    Matrix v_;
};

// One case in sixteen meets the thresholds of a contract exactly. The seed alone decides, without drawing a number, so
// that the other cases stay the same.
std::optional<CaseKind> border_kind(uint64_t seed, const Problem& problem) {
    if (seed % 16 != 9) return std::nullopt;
    return seed / 16 % 2 == 0 && problem.queries <= kMostThresholdTokens ? CaseKind::threshold : CaseKind::digits;
}

// One case in eight, apart from the threshold cases, has rows that stray. The seed decides, as above.
bool has_strays(uint64_t seed) { return seed % 8 == 1; }

// One case in four regroups its rows, as several heads of fewer rows each or as more queries and fewer keys. The seed
// decides, as above.
int64_t divisor_of(int64_t number, uint64_t choice) {
    std::vector<int64_t> divisors;
    for (int64_t i = 1; i <= std::min<int64_t>(number, 64); ++i)
        if (number % i == 0) divisors.push_back(i);
    return divisors[choice % divisors.size()];
}

Problem with_heads(Problem problem, uint64_t choice) {
    const int64_t tokens = problem.queries;
    problem.heads = divisor_of(tokens, choice);
    problem.kv_heads = divisor_of(problem.heads, choice / 64);
    problem.queries = tokens / problem.heads;
    problem.keys = tokens / problem.kv_heads;
    return problem;
}

Problem with_other_lengths(Problem problem, uint64_t choice) {
    const int64_t tokens = problem.queries;
    const int64_t fewest = -((tokens - 1) / 2); // how many keys fewer
    const int64_t less = fewest + static_cast<int64_t>(choice % static_cast<uint64_t>(tokens - fewest));
    problem.queries = tokens + 2 * less;
    problem.keys = tokens - less;
    return problem;
}

// One case in four of every kind has the causal mask. The seed decides, as above.
Mask mask_of(uint64_t seed) { return seed / 1024 % 4 == 1 ? Mask::causal : Mask::none; }

// One case in eight of every kind is backward. The seed decides, as above.
bool is_backward(uint64_t seed) { return seed / 4096 % 8 == 1; }

// Half of the causal forward cases have a window, which may be longer than the keys. Windows are for f32 alone.
int64_t window_of(uint64_t seed, const Problem& problem) {
    if (problem.mask == Mask::none || problem.operation != &kForward || seed / 32768 % 2 == 0) return 0;
    return 1 + static_cast<int64_t>(seed / 65536 % static_cast<uint64_t>(problem.keys + problem.keys / 8));
}

// Returns how much of the gradients' limit (domain.h) a batch uses, as a fraction.
double gradient_reach(const Problem& problem, const float* in) {
    const auto d = static_cast<size_t>(problem.dim);
    double largest[kMostInputs] = {};
    double largest_row = 0;
    for (size_t which = 0; which < kMostInputs; ++which) {
        const auto rows = static_cast<size_t>(problem.rows_of(kBackward.inputs[which]));
        for (size_t row = 0; row < rows; ++row, in += d) {
            double sum = 0;
            for (size_t x = 0; x < d; ++x) {
                sum += std::fabs(double{in[x]});
                largest[which] = std::max(largest[which], std::fabs(double{in[x]}));
            }
            if (which == 3) largest_row = std::max(largest_row, sum);
        }
    }
    const int64_t summed = problem.heads / problem.kv_heads * problem.queries; // the rows that a key's gradients add up
    const auto rows = static_cast<double>(summed);
    const double of_rows = largest_row * largest[2] * std::max({1.0, largest[1], rows * largest[0]});
    return std::max(of_rows, rows * largest[3]) * (1 + 0x1p-40) / kGradientLimit;
}

} // namespace

DrawnCase::DrawnCase(uint64_t s) : seed(s) {
    Random random(seed);
    problem = draw_problem(random);
    qkv.resize(static_cast<size_t>(problem.batches) * problem.batch_input_floats());
    if (const auto kind = border_kind(seed, problem)) {
        fill_case_values({problem, *kind, seed}, 0, qkv.size(), qkv.data());
    } else {
        draw_batches(random);
    }
    DomainCheck(name(), problem, kF32.domain).check(0, problem.input_rows(), qkv.data());
    if (seed % 8 == 3) regroup(with_heads(problem, seed / 8));
    if (seed % 8 == 5) regroup(with_other_lengths(problem, seed / 8));
    problem.mask = mask_of(seed);
    if (is_backward(seed)) add_gradients();
    problem.window = window_of(seed, problem);
}

// Appends dO to each batch, scaled by a power of two into the domain, sometimes to just below its limit.
void DrawnCase::add_gradients() {
    Random random(~seed);
    const std::vector<float> before = qkv;
    const size_t floats_before = problem.batch_input_floats();
    problem.operation = &kBackward;
    qkv.resize(static_cast<size_t>(problem.batches) * problem.batch_input_floats());
    for (int64_t b = 0; b < problem.batches; ++b) {
        const Matrix gradients = draw_values(problem.batch_input_floats() - floats_before, random);
        const float* const from = before.data() + static_cast<size_t>(b) * floats_before;
        float* const to = std::copy(from, from + floats_before, batch(b));
        std::copy(gradients.begin(), gradients.end(), to);
        const double reach = gradient_reach(problem, batch(b));
        const bool to_the_limit = random.one_in(12);
        if (reach == 0 || (reach <= 1 && !to_the_limit)) continue;
        for (float* x = to; x < batch(b) + problem.batch_input_floats(); ++x)
            *x = std::ldexp(*x, -std::ilogb(reach) - 1);
    }
    DomainCheck(name(), problem, kF32.domain).check(0, problem.input_rows(), qkv.data());
}

// Puts the numbers into matrices of other shapes, where they stay within the domain.
void DrawnCase::regroup(const Problem& regrouped) {
    try {
        DomainCheck(name(), regrouped, kF32.domain).check(0, regrouped.input_rows(), qkv.data());
        problem = regrouped;
    } catch (const Error&) {
    }
}

void DrawnCase::draw_batches(Random& random) {
    const int64_t different = std::min(problem.batches, random.pick<int64_t>({1, 3, 7}));
    for (int64_t b = 0; b < different; ++b) Batch(problem, has_strays(seed), random).write(batch(b));
    // The other batches have the same values, with the rows of V rotated.
    for (int64_t b = different; b < problem.batches; ++b) {
        const float* from = batch(b % different);
        const float* v = from + 2 * problem.batch_output_floats();
        const float* middle = v + b % problem.queries * problem.dim;
        float* to = std::copy(from, v, batch(b));
        std::rotate_copy(v, middle, v + problem.batch_output_floats(), to);
    }
}

std::string DrawnCase::name() const {
    const auto [names, sizes] = sizes_of(problem);
    return names + " " + sizes;
}

} // namespace hw4::fuzz
