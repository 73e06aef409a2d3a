#include "src/io/case_values.h"

#include <array>
#include <utility>

#include "src/contracts/f32/forward.h"
#include "src/io/border_values.h"

namespace hw4 {
namespace {

constexpr std::array<std::pair<const char*, CaseKind>, 13> kKinds = {{
    {"uniform", CaseKind::uniform},
    {"equal", CaseKind::equal},
    {"negative", CaseKind::negative},
    {"spread", CaseKind::spread},
    {"denormal", CaseKind::denormal},
    {"dominant", CaseKind::dominant},
    {"vzero", CaseKind::vzero},
    {"huge", CaseKind::huge},
    {"fading", CaseKind::fading},
    {"climb", CaseKind::climb},
    {"brink", CaseKind::brink},
    {"threshold", CaseKind::threshold},
    {"digits", CaseKind::digits},
}};

// A bijective mixer of 64 bits (two multiply-xorshift rounds), so that neighbouring counters give
// unrelated words.
uint64_t mixed(uint64_t seed, uint64_t counter) {
    uint64_t z = seed * 0x9e3779b97f4a7c15u + counter * 0xd1342543de82ef95u + 0x2545f4914f6cdd1du;
    z = (z ^ (z >> 32)) * 0xbea225f9eb34556du;
    z = (z ^ (z >> 29)) * 0x94d049bb133111ebu;
    return z ^ (z >> 32);
}

// 24 random bits as an integer in [-2^23, 2^23): exact as a float.
float centred(uint64_t word) { return static_cast<float>(static_cast<int32_t>(word >> 40) - (1 << 23)); }

float within(float limit, uint64_t word) { return centred(word) * (limit * 0x1p-23f); }

float magnitude(float x) { return float_of(bits_of(x) & 0x7fffffffu); }

using borders::Position;

constexpr char kOtherMatrix = '-';

char letter_of(Role role) {
    switch (role) {
    case Role::query: return 'Q';
    case Role::key: return 'K';
    case Role::value: return 'V';
    case Role::other: break;
    }
    return kOtherMatrix;
}

// Heads of K and V count as further batches, and with each its heads of Q, which are of the same kind.
Position position_of(const Problem& problem, size_t index) {
    const auto row_of_file = static_cast<int64_t>(index / static_cast<size_t>(problem.dim));
    const auto column = static_cast<int64_t>(index % static_cast<size_t>(problem.dim));
    const int64_t batch = row_of_file / problem.batch_input_rows();
    int64_t row = row_of_file % problem.batch_input_rows(); // of the operand, once those before it are taken off
    const Operand* operand = problem.operation->inputs.begin();
    for (; row >= problem.rows_of(*operand); ++operand) row -= problem.rows_of(*operand);
    const int64_t head_rows = problem.head_rows(*operand);
    const int64_t sharing = problem.heads_of(*operand) / problem.kv_heads; // a head of K and V
    const int64_t kv_unit = batch * problem.kv_heads + row / head_rows / sharing;
    return {static_cast<size_t>(kv_unit), letter_of(operand->role), row % head_rows, column};
}

// The key's place in the sequence as a float in [-1, 1).
float progress(const Problem& problem, int64_t row) {
    return 2.0f * static_cast<float>(row) / static_cast<float>(problem.keys) - 1.0f;
}

// A key whose score with q = (4096, 0, 0, ...) is 2^21 in base-2 units, give or take: it grows by about 3 units from
// one tile of 32 keys to the next, past 2^21 in the middle of the sequence.
float brink_key(const Problem& problem, int64_t row, uint64_t word) {
    const Scale scale = scale_for(problem.dim);
    const int64_t middle = problem.keys / 2;
    const float units = static_cast<float>(row - middle) * 0.1f + within(2.0f, word);
    return (kIntegerReach + units) * scale.inv_c * 0x1p-12f;
}

float brink_value(const Problem& problem, const Position& at, float plain, uint64_t word) {
    if (at.matrix == 'V') return plain;
    if (at.column > 0) return 0.0f;
    if (at.matrix == 'Q') return 0x1p12f + within(0.0625f, word); // moves the scores by up to 32 units
    // In odd batches the sequence runs up to -2^21 from below: the mirror image, backwards.
    if (at.batch % 2 == 0) return brink_key(problem, at.row, word);
    return -brink_key(problem, problem.keys - 1 - at.row, word);
}

float dominant_value(const Problem& problem, const Position& at, float plain) {
    if (at.matrix == 'Q') return magnitude(plain);
    if (at.matrix == 'K') return at.row == problem.keys / 2 ? 3.0f : 0.125f * plain;
    return plain;
}

float fading_value(const Problem& problem, const Position& at, float plain) {
    if (at.matrix == 'Q') return magnitude(plain);
    if (at.matrix == 'K') return 7.0f * progress(problem, at.row) + 0.25f * plain;
    return at.row < problem.keys / 2 ? plain * 0x1p-48f : 0.0f;
}

float special_value(const CaseRecipe& recipe, size_t index) {
    const Position at = position_of(recipe.problem, index);
    const uint64_t word = mixed(recipe.seed, index);
    const float plain = within(3.0f, word);
    if (at.matrix == kOtherMatrix) return plain;
    switch (recipe.kind) {
    case CaseKind::uniform: break;
    case CaseKind::equal: // a key's value depends on its column alone
        if (at.matrix == 'K') return within(3.0f, mixed(recipe.seed, static_cast<uint64_t>(at.column)));
        break;
    case CaseKind::negative:
        if (at.matrix == 'Q') return magnitude(plain) + 2.0f;
        if (at.matrix == 'K') return -magnitude(plain) - 2.0f;
        break;
    case CaseKind::spread:
        if (at.matrix == 'K') return plain * static_cast<float>(1 << at.row % 6);
        break;
    case CaseKind::denormal:
        if (at.matrix != 'K')
            return float_of(static_cast<uint32_t>(word >> 41) | static_cast<uint32_t>(word & 1) << 31);
        break;
    case CaseKind::dominant: return dominant_value(recipe.problem, at, plain);
    case CaseKind::vzero:
        if (at.matrix == 'V' && word % 3 != 0) return word % 3 == 1 ? 0.0f : -0.0f;
        break;
    case CaseKind::huge:
        if (at.matrix != 'V') return within(1e4f, word);
        break;
    case CaseKind::fading: return fading_value(recipe.problem, at, plain);
    case CaseKind::climb:
        if (at.matrix == 'Q') return 1e3f + plain;
        if (at.matrix == 'K') {
            const float x = progress(recipe.problem, at.row);
            return x * x * x * 1e4f + plain;
        }
        break;
    case CaseKind::brink: return brink_value(recipe.problem, at, plain, word);
    case CaseKind::threshold: return borders::threshold_value(recipe.problem, at, word);
    case CaseKind::digits: return borders::digits_value(recipe.problem, at, word);
    }
    return plain;
}

} // namespace

std::optional<CaseKind> case_kind(const std::string& name) {
    for (const auto& [known, kind] : kKinds)
        if (name == known) return kind;
    return std::nullopt;
}

std::vector<std::string> case_kind_names() {
    std::vector<std::string> names;
    names.reserve(kKinds.size());
    for (const auto& [name, kind] : kKinds) names.emplace_back(name);
    return names;
}

void fill_case_values(const CaseRecipe& recipe, size_t first, size_t count, float* to) {
    if (recipe.kind == CaseKind::uniform) { // the one that has to be fast: no positions
        for (size_t i = 0; i < count; ++i) to[i] = within(3.0f, mixed(recipe.seed, first + i));
        return;
    }
    for (size_t i = 0; i < count; ++i) to[i] = special_value(recipe, first + i);
}

} // namespace hw4
