#include "src/io/case_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "src/base/error.h"
#include "src/base/numbers.h"
#include "src/base/parallel.h"
#include "src/contracts/f32/backward.h"
#include "src/io/border_values.h"

namespace hw4 {
namespace {

struct KindRow {
    const char* name = nullptr;
    CaseKind kind = CaseKind::uniform;
    double usual_number = 0;
    double most = -1; // the largest parameter; below 0: the kind takes none

    bool takes_number() const { return most >= 0; }
};

// In the order of CaseKind.
constexpr std::array<KindRow, 20> kKinds = {{
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
    {"normal", CaseKind::normal, 1, 1e9},
    {"stray", CaseKind::stray, 60, 1e9},
    {"sink", CaseKind::sink, 0, 1},
    {"low", CaseKind::low},
    {"gzero", CaseKind::gzero},
    {"gtiny", CaseKind::gtiny},
    {"glimit", CaseKind::glimit},
}};

const KindRow& row_of(CaseKind kind) { return kKinds.at(static_cast<size_t>(kind)); }

std::string number_text(double number) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", number);
    return text;
}

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

// Roughly normal: the sum of twelve integers of 16 bits has the standard deviation 2^16. Exact but for the last step.
float normal(const CaseRecipe& recipe, size_t index, double deviation) {
    int32_t sum = -6 * 0xffff;
    for (uint64_t word = 0; word < 3; ++word) {
        const uint64_t bits = mixed(recipe.seed, 3 * index + word);
        for (int piece = 0; piece < 64; piece += 16) sum += static_cast<int32_t>(bits >> piece & 0xffff);
    }
    return static_cast<float>(sum) * static_cast<float>(deviation * 0x1p-16);
}

float denormal(uint64_t word) {
    return float_of(static_cast<uint32_t>(word >> 41) | static_cast<uint32_t>(word & 1) << 31);
}

float magnitude(float x) { return float_of(bits_of(x) & 0x7fffffffu); }

using borders::Position;

constexpr char kOtherMatrix = '-';

char letter_of(Role role) {
    switch (role) {
    case Role::query: return 'Q';
    case Role::key: return 'K';
    case Role::value: return 'V';
    case Role::gradient: return 'G';
    case Role::other: break;
    }
    return kOtherMatrix;
}

// Heads of K and V count as further batches, together with their heads of Q, which are of the same kind.
Position position_of(const Problem& problem, size_t index) {
    const auto row_of_file = static_cast<int64_t>(index / static_cast<size_t>(problem.dim));
    const auto column = static_cast<int64_t>(index % static_cast<size_t>(problem.dim));
    const int64_t batch = row_of_file / problem.batch_input_rows();
    int64_t row = row_of_file % problem.batch_input_rows(); // in the operand, after subtracting those before it
    const Operand* operand = problem.operation->inputs.begin();
    for (; row >= problem.rows_of(*operand); ++operand) row -= problem.rows_of(*operand);
    const int64_t head_rows = problem.head_rows(*operand);
    const int64_t sharing = problem.heads_of(*operand) / problem.kv_heads; // per head of K and V
    const int64_t kv_unit = batch * problem.kv_heads + row / head_rows / sharing;
    return {static_cast<size_t>(kv_unit), letter_of(operand->role), row % head_rows, column};
}

// The key's position in the sequence as a float in [-1, 1).
float progress(const Problem& problem, int64_t row) {
    return 2.0f * static_cast<float>(row) / static_cast<float>(problem.keys) - 1.0f;
}

// A key with a score of about 2^21 for q = (4096, 0, 0, ...) in base-2 units: it grows by about 3 units from one tile
// of 32 keys to the next, past 2^21 in the middle of the sequence.
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
    // In odd batches the scores approach -2^21 from below: the mirror image, backwards.
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

float climb_value(const Problem& problem, const Position& at, float plain) {
    if (at.matrix == 'Q') return 1e3f + plain;
    const float x = progress(problem, at.row);
    return at.matrix == 'K' ? x * x * x * 1e4f + plain : plain;
}

constexpr int64_t kStrayEvery = 500;

double sink_factor(const CaseRecipe& recipe, const Position& at) {
    const auto last_key = static_cast<double>(recipe.problem.keys - 1);
    return at.matrix == 'K' && at.row == std::llround(recipe.values.number * last_key) ? 100.0 : 1.0;
}

// Each column contributes an equal part of -112, plus noise, which is larger where there are more columns: their sum
// differs by a unit or two from key to key, for every d.
float low_value(const Problem& problem, const Position& at, float plain, uint64_t word) {
    if (at.matrix == 'V') return plain;
    const auto columns = static_cast<double>(problem.dim);
    const double share = std::sqrt(112.0 * double{scale_for(problem.dim).inv_c} / columns);
    const float value = static_cast<float>(share) + within(static_cast<float>(share * std::sqrt(columns) / 64), word);
    return at.matrix == 'Q' ? value : -value;
}

// The power of two at which d * max|V| * N * max|Q| times it reaches between half and all of the gradients' limit
// (domain.h), with V up to 1 and Q up to 3; N counts the rows of all heads that share keys.
float largest_gradient(const Problem& problem) {
    const int64_t numbers = problem.heads / problem.kv_heads * problem.queries * problem.dim;
    return std::ldexp(1.0f, std::ilogb(kGradientLimit / (3.0 * static_cast<double>(numbers))));
}

// dO is uniform, except for the kinds about gradients.
float gradient_value(const CaseRecipe& recipe, float plain, uint64_t word) {
    switch (recipe.values.kind) {
    case CaseKind::gzero: return (word & 1) == 0 ? 0.0f : -0.0f;
    case CaseKind::gtiny: return denormal(word);
    case CaseKind::glimit: return within(largest_gradient(recipe.problem), word);
    default: return plain;
    }
}

bool is_of_kind(const Position& at) { return at.matrix != 'G' && at.matrix != kOtherMatrix; }

float special_value(const CaseRecipe& recipe, size_t index, const Position& at) {
    const uint64_t word = mixed(recipe.seed, index);
    const float plain = within(3.0f, word);
    if (!is_of_kind(at)) return at.matrix == 'G' ? gradient_value(recipe, plain, word) : plain;
    switch (recipe.values.kind) {
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
        if (at.matrix != 'K') return denormal(word);
        break;
    case CaseKind::dominant: return dominant_value(recipe.problem, at, plain);
    case CaseKind::vzero:
        if (at.matrix == 'V' && word % 3 != 0) return word % 3 == 1 ? 0.0f : -0.0f;
        break;
    case CaseKind::huge:
        if (at.matrix != 'V') return within(1e4f, word);
        break;
    case CaseKind::fading: return fading_value(recipe.problem, at, plain);
    case CaseKind::climb: return climb_value(recipe.problem, at, plain);
    case CaseKind::brink: return brink_value(recipe.problem, at, plain, word);
    case CaseKind::threshold: return borders::threshold_value(recipe.problem, at, word);
    case CaseKind::digits: return borders::digits_value(recipe.problem, at, word);
    case CaseKind::normal: return normal(recipe, index, recipe.values.number);
    case CaseKind::stray:
        return normal(recipe, index, at.matrix == 'Q' && at.row % kStrayEvery == 0 ? recipe.values.number : 1.0);
    case CaseKind::sink: return normal(recipe, index, sink_factor(recipe, at));
    case CaseKind::low: return low_value(recipe.problem, at, plain, word);
    case CaseKind::gzero:
    case CaseKind::gtiny: break;
    case CaseKind::glimit: return at.matrix == 'V' ? within(1.0f, word) : plain;
    }
    return plain;
}

// Fills values from a position on, up to the end of its row.
void fill_row(const CaseRecipe& recipe, size_t first, Position at, size_t count, float* to) {
    if (recipe.values.kind == CaseKind::normal && is_of_kind(at)) { // fast, because bench fills its cells so
        for (size_t i = 0; i < count; ++i) to[i] = normal(recipe, first + i, recipe.values.number);
        return;
    }
    for (size_t i = 0; i < count; ++i, ++at.column) to[i] = special_value(recipe, first + i, at);
}

} // namespace

Distribution::Distribution(CaseKind k) : Distribution(k, row_of(k).usual_number) {}

Distribution distribution_of(const std::string& text) {
    const size_t colon = text.find(':');
    const std::string name = text.substr(0, colon);
    const auto* const row =
        std::find_if(kKinds.begin(), kKinds.end(), [&](const KindRow& r) { return name == r.name; });
    if (row == kKinds.end()) {
        std::string names;
        for (const KindRow& known : kKinds) names += (names.empty() ? "" : ", ") + std::string(known.name);
        throw Error(ExitCode::usage, "kind '" + name + "': need one of " + names);
    }
    if (colon == std::string::npos) return row->kind;
    if (!row->takes_number()) throw Error(ExitCode::usage, "kind '" + text + "': " + name + " takes no number");
    const auto number = decimal_number(std::string_view(text).substr(colon + 1), 0, row->most);
    if (!number)
        throw Error(ExitCode::usage,
                    "kind '" + text + "': need a number from 0 to " + number_text(row->most) + " after the colon");
    return {row->kind, *number};
}

std::string spelling_of(const Distribution& values) {
    const KindRow& row = row_of(values.kind);
    return row.takes_number() ? std::string(row.name) + ":" + number_text(values.number) : row.name;
}

std::vector<std::string> case_kind_names() {
    std::vector<std::string> names;
    names.reserve(kKinds.size());
    for (const KindRow& row : kKinds) names.push_back(spelling_of(row.kind));
    return names;
}

void fill_case_values(const CaseRecipe& recipe, size_t first, size_t count, float* to) {
    if (recipe.values.kind == CaseKind::uniform) { // fast: needs no positions
        for (size_t i = 0; i < count; ++i) to[i] = within(3.0f, mixed(recipe.seed, first + i));
        return;
    }
    for (size_t done = 0; done < count;) {
        const Position start = position_of(recipe.problem, first + done); // divides only once per row
        const size_t in_row = std::min(count - done, static_cast<size_t>(recipe.problem.dim - start.column));
        fill_row(recipe, first + done, start, in_row, to + done);
        done += in_row;
    }
}

void fill_in_parallel(const CaseRecipe& recipe, size_t first, size_t count, float* to) {
    in_pieces(count, kPieceNumbers,
              [&](size_t begin, size_t piece) { fill_case_values(recipe, first + begin, piece, to + begin); });
}

} // namespace hw4
