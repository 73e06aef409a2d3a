// Cases whose rows take different courses through the keys: ordinary rows beside rows that raise their reference in one
// half of a segment or the other, climb, start low, go beyond +-2^21, or meet a threshold of the contract f32 exactly.
//
// A column of K is a course: its scores by key. A row of Q is 1 in one column and 0 in the others, so that its scores
// are exactly that column. Each batch, and each head of K and V, takes the next course and another choice of rows that
// stray. V has columns of several magnitudes, with and without the keys at the peaks, so that sums underflow.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/io/border_values.h"
#include "tests/support/attention_case.h"
#include "tests/support/problems.h"
#include "tests/support/stray_cases.h"

namespace hw4 {

struct Course {
    std::string name;
    std::vector<float> scores; // by key
};

// The courses through this many keys, for scores of d columns.
class Courses {
public:
    Courses(int64_t keys, int64_t dim) : keys_(keys), scale_(scale_for(dim)) {
        add_raises();
        add_climbs();
        add_far_ones();
        add_low_ones();
        add_borders();
    }

    const std::vector<Course>& all() const { return all_; }
    size_t count() const { return all_.size(); }
    const Course& at(size_t turn) const { return all_[turn % all_.size()]; }

    // From -3 to 3, in base-2 units.
    static float ordinary(int64_t key) { return 6.0f * (Stray::mantissa(key, 0) - 1.5f); }

    static constexpr int64_t kPeak = 5; // the outstanding key of a tile

private:
    template <class Units>
    Course& add(const std::string& name, Units units) {
        Course course{name, {}};
        for (int64_t key = 0; key < keys_; ++key) course.scores.push_back(units(key) * scale_.inv_c);
        all_.push_back(std::move(course));
        return all_.back();
    }

    // The score at the peak of a tile, or of the last key where there is no such key.
    float& peak(Course& course, int64_t tile) const {
        return course.scores[static_cast<size_t>(std::min(tile * kKeyTile + kPeak, keys_ - 1))];
    }

    static int64_t tile_of(int64_t key) { return key / kKeyTile; }

    int64_t last_segment() const { return (keys_ - 1) / kSegmentKeys; }

    // Raises in the first, a middle and the last segment: in its first half, its second, both.
    void add_raises() {
        for (const int64_t segment : {int64_t{0}, last_segment() / 2, last_segment()})
            for (const int halves : {1, 2, 3}) {
                Course& course = add(
                    "raises in halves " + std::to_string(halves) + " of segment " + std::to_string(segment), ordinary);
                if (halves != 2) peak(course, 2 * segment) = 90.0f * scale_.inv_c;
                if (halves != 1) peak(course, 2 * segment + 1) = 180.0f * scale_.inv_c;
            }
        Course& deep = add("deep but for one key", [](int64_t key) { return ordinary(key) - 128.0f; });
        peak(deep, 0) = 0.0f;
    }

    void add_climbs() {
        for (const float step : {20.0f, 50.0f, 80.0f, 130.0f})
            for (const float from : {0.0f, -300.0f})
                add("climbs by " + units_text(step) + " a tile from " + units_text(from),
                    [=](int64_t key) { return from + step * static_cast<float>(tile_of(key)) + ordinary(key); });
    }

    // Beyond +-2^21, where a row has an origin.
    void add_far_ones() {
        for (const float far : {kIntegerReach + 500.0f, -kIntegerReach - 500.0f, 0x1p30f, -0x1p30f}) {
            add("all at " + units_text(far), [=](int64_t key) { return far + 8.0f * ordinary(key); });
            for (const int64_t tile : {int64_t{1}, int64_t{2}, last_segment()})
                add(units_text(far) + " from tile " + std::to_string(tile) + " on",
                    [=](int64_t key) { return (tile_of(key) < tile ? 0.0f : far) + ordinary(key); });
            for (const int64_t tile : {1, 2})
                add(units_text(far) + " before tile " + std::to_string(tile),
                    [=](int64_t key) { return (tile_of(key) < tile ? far : 0.0f) + ordinary(key); });
        }
        for (const float step : {40.0f, 100.0f})
            for (const float far : {kIntegerReach, -kIntegerReach})
                add("creeps past " + units_text(far) + " by " + units_text(step) + " a tile", [=](int64_t key) {
                    return far + step * (static_cast<float>(tile_of(key)) - 1.5f) + ordinary(key);
                });
    }

    // The first tile lies below -8, later ones above it.
    void add_low_ones() {
        for (const float low : {-12.0f, -40.0f, -200.0f})
            for (const int64_t tile : {int64_t{1}, int64_t{2}, last_segment()})
                for (const float later : {0.0f, 100.0f})
                    add(units_text(low) + ", then " + units_text(later) + " from tile " + std::to_string(tile),
                        [=](int64_t key) { return (tile_of(key) < tile ? low : later) + ordinary(key); });
        add("low throughout", [](int64_t key) { return ordinary(key) - 112.0f; });
    }

    // A peak at a threshold and one float to either side of it.
    template <class Units>
    void add_border(const std::string& name, int64_t tile, float border, Units others, float first_peak) {
        for (const int floats : {0, 1, -1}) {
            Course& course =
                add(name + " in tile " + std::to_string(tile) + ", floats " + std::to_string(floats), others);
            peak(course, 0) = first_peak;
            peak(course, tile) = borders::moved(border, floats);
        }
    }

    // The contract's thresholds, and thresholds of kernels that stay one unit clear of them.
    void add_borders() {
        const float unit = scale_.inv_c;
        for (const int64_t tile : {0, 1, 2}) {
            add_border("72", tile, reference_at(0.0f, scale_).raise_above, ordinary, 0.0f);
            add_border("71", tile, 71.0f * unit, ordinary, 0.0f);
            add_border("-71", tile, -71.0f * unit, ordinary, unit);
        }
        for (const int64_t tile : {1, 2})
            for (const float M : {100.0f, -100.0f})
                add_border(
                    "what raises " + units_text(M), tile, reference_at(M * unit, scale_).raise_above,
                    [=](int64_t key) { return M - 4.0f + ordinary(key); }, M * unit);
        for (const int floats : {0, 1, -1}) {
            Course& course = add("at the floor, floats " + std::to_string(floats), ordinary);
            std::fill(course.scores.begin(), course.scores.end(),
                      borders::moved(reference_at(0.0f, scale_).floor, floats));
            peak(course, 0) = unit;
        }
        add_border(
            "-8", 0, -8.0f * unit, [](int64_t key) { return ordinary(key) - 20.0f; }, 0.0f);
    }

    int64_t keys_;
    Scale scale_;
    std::vector<Course> all_;
};

// Which rows of a head stray from the ordinary course; with the last choice every row takes another course.
enum class Straying { first, last, alone, in_every_group, all, each_its_own };
constexpr size_t kStrayings = 6;

inline bool row_strays(Straying which, int64_t row, int64_t rows) {
    constexpr int64_t kGroup = 32; // rows
    switch (which) {
    case Straying::first: return row == 0;
    case Straying::last: return row == rows - 1;
    case Straying::alone: return row == rows / 2;
    case Straying::in_every_group: return row % kGroup == (row / kGroup * 7 + 3) % kGroup;
    default: return true;
    }
}

class MixedRows {
public:
    // The first head of K and V takes course `first_turn`, each later head the next.
    MixedRows(const Problem& problem, size_t first_turn)
        : problem_(problem), first_turn_(first_turn), courses_(problem.keys, problem.dim) {}

    void fill_batch(float* qkv, int64_t batch) const {
        float* q = qkv;
        float* k = q + problem_.floats_in(problem_.heads * problem_.queries);
        float* v = k + problem_.floats_in(problem_.kv_heads * problem_.keys);
        for (int64_t head = 0; head < problem_.heads; ++head, q += problem_.floats_in(problem_.queries))
            fill_queries(q, turn_of(batch, head * problem_.kv_heads / problem_.heads), head);
        for (int64_t head = 0; head < problem_.kv_heads; ++head, k += problem_.floats_in(problem_.keys))
            fill_keys(k, turn_of(batch, head));
        for (int64_t head = 0; head < problem_.kv_heads; ++head, v += problem_.floats_in(problem_.keys))
            fill_values(v, turn_of(batch, head));
        if (problem_.operation == &kBackward) fill_gradients(v);
    }

private:
    size_t turn_of(int64_t batch, int64_t kv_head) const {
        return first_turn_ + static_cast<size_t>(batch * problem_.kv_heads + kv_head);
    }

    // The last column is the ordinary course, where there is more than one.
    int64_t course_columns() const { return std::max<int64_t>(problem_.dim - 1, 1); }

    int64_t column_of(size_t turn) const { return static_cast<int64_t>(turn) % course_columns(); }

    void fill_queries(float* q, size_t turn, int64_t head) const {
        // Another choice when the same course comes again, and in each head that shares it.
        const size_t way = turn % courses_.count() + turn / courses_.count() + static_cast<size_t>(head);
        const auto which = static_cast<Straying>(way % kStrayings);
        for (int64_t row = 0; row < problem_.queries; ++row, q += problem_.dim) {
            const int64_t column = which == Straying::each_its_own ? row % course_columns() : column_of(turn);
            if (row_strays(which, row, problem_.queries))
                q[column] = 1.0f;
            else
                q[problem_.dim - 1] = problem_.dim > 1 ? 1.0f : 0x1p-28f; // makes any course ordinary
        }
    }

    void fill_keys(float* k, size_t turn) const {
        const float unit = scale_for(problem_.dim).inv_c;
        for (int64_t key = 0; key < problem_.keys; ++key, k += problem_.dim) {
            k[problem_.dim - 1] = Courses::ordinary(key) * unit;
            for (int64_t column = 0; column < course_columns(); ++column) {
                const int64_t later = (column - column_of(turn) + course_columns()) % course_columns();
                k[column] = courses_.at(turn + static_cast<size_t>(later)).scores[static_cast<size_t>(key)];
            }
        }
    }

    void fill_values(float* v, size_t turn) const {
        for (int64_t key = 0; key < problem_.keys; ++key)
            for (int64_t column = 0; column < problem_.dim; ++column)
                *v++ = size_of_value(key, (turn + static_cast<size_t>(column)) % kSorts) * Stray::mantissa(key, column);
    }

    // Fills dO, which follows V, with both signs and some zeros.
    void fill_gradients(float* dout) const {
        for (int64_t row = 0; row < problem_.heads * problem_.queries; ++row)
            for (int64_t column = 0; column < problem_.dim; ++column)
                *dout++ = static_cast<float>((row + column) % 5 - 2) * Stray::mantissa(row, column);
    }

    static constexpr size_t kSorts = 7; // kinds of columns in V

    static float size_of_value(int64_t key, size_t sort) {
        const bool at_peak = key % kKeyTile == Courses::kPeak;
        switch (sort) {
        case 0: return key % 3 == 0 ? -1.0f : 1.0f;
        case 1: return 0x1p-126f;
        case 2: return 0x1p-140f; // denormal
        case 3: return at_peak ? 0.0f : 0x1p-60f;
        case 4: return at_peak ? 0.0f : 0x1p30f;
        case 5: return key < kKeyTile ? 0x1p-90f : 0.0f;
        default: return key < kKeyTile ? 0x1p-118f : 0.0f;
        }
    }

    Problem problem_;
    size_t first_turn_;
    Courses courses_;
};

inline AttentionCase mixed_rows(const Problem& problem, size_t first_turn, const Contract& contract = kF32) {
    const MixedRows rows(problem, first_turn);
    return AttentionCase::filled(
        problem, "mixed rows from turn " + std::to_string(first_turn) + " on",
        [&](float* qkv, int64_t batch) { rows.fill_batch(qkv, batch); }, contract);
}

// Lengths around tiles and segments, every row size of the kernels, full and partial; several heads once. Together the
// cases take every course several times under f32, whose thresholds these are, each time with other rows that stray.
// All kernels of a contract share them.
inline const std::vector<AttentionCase>& mixed_rows_cases(const Contract& contract) {
    static std::map<const Contract*, std::vector<AttentionCase>> made;
    std::vector<AttentionCase>& cases = made[&contract];
    if (!cases.empty()) return cases;
    const int64_t fewer = &contract != &kF32 ? 8 : soaks() ? 1 : 2;
    size_t turn = 0;
    const auto add = [&](const Problem& problem) {
        cases.push_back(mixed_rows(problem.of_batches((problem.batches + fewer - 1) / fewer), turn, contract));
        turn += static_cast<size_t>(cases.back().problem.batches * problem.kv_heads);
    };
    for (const int64_t n : {1, 31, 33, 64, 65, 127, 129, 193}) add({60, n, 1});
    for (const Problem& problem :
         {Problem{40, 127, 32}, Problem{40, 66, 32}, Problem{40, 65, 33}, Problem{40, 193, 33}, Problem{60, 129, 64},
          Problem{30, 63, 64}, Problem{30, 192, 64}, Problem{30, 97, 100}, Problem{30, 129, 100}, Problem{40, 65, 128},
          Problem{30, 130, 128}})
        add(problem);
    add(problem_of({4, 6, 3, 70, 161, 64}));
    return cases;
}

} // namespace hw4
