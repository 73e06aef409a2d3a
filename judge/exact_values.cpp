#include "judge/exact_values.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "src/base/parallel.h"
#include "src/io/file_rows.h"
#include "src/problem/tensor.h"

namespace hw4 {
namespace {

using Doubles = std::vector<double>;

// The time of a comparison goes into these loops, so they are compiled for each vector unit; every one does the same
// operations in the same order. The runtimes of sanitizers are not ready when such a function is chosen.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FOR_EACH_VECTOR_UNIT __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_VECTOR_UNIT
#endif

// In lanes, so that it vectorises.
[[gnu::always_inline]] inline double dot(const float* a, const float* b, int64_t count) {
    constexpr int kLanes = 8;
    double lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes)
        for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += double{a[i + lane]} * double{b[i + lane]};
    double sum = 0;
    for (; i < count; ++i) sum += double{a[i]} * double{b[i]};
    for (const double lane : lanes) sum += lane;
    return sum;
}

FOR_EACH_VECTOR_UNIT void dots(const float* row, const float* rows, int64_t dim, double factor, Doubles& out) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = factor * dot(row, rows + static_cast<int64_t>(i) * dim, dim);
}

// Adds the rows, each times its factor, one after the other; a sum is in a register for four of them.
FOR_EACH_VECTOR_UNIT void add_rows(Doubles& sums, const Doubles& factors, const float* rows) {
    const size_t dim = sums.size();
    size_t i = 0;
    for (; i + 4 <= factors.size(); i += 4, rows += 4 * dim)
        for (size_t x = 0; x < dim; ++x)
            sums[x] = sums[x] + factors[i] * double{rows[x]} + factors[i + 1] * double{rows[dim + x]} +
                      factors[i + 2] * double{rows[2 * dim + x]} + factors[i + 3] * double{rows[3 * dim + x]};
    for (; i < factors.size(); ++i, rows += dim)
        for (size_t x = 0; x < dim; ++x) sums[x] += factors[i] * double{rows[x]};
}

// A query beside the keys of its head.
struct Query {
    const float* q;
    const float* k;
    const float* v;
    int64_t seen; // keys
    int64_t dim;
    double scale;

    double score(int64_t key) const { return scale * dot(q, k + key * dim, dim); }
};

// What the weights of a row are made of, and the sum of their shares of dP.
struct RowFacts {
    double largest = 0; // score
    double whole = 0;   // sum of exp(score - largest)
    double D = 0;

    double weight(double score) const { return std::exp(score - largest) / whole; }
};

// The weights of the keys that it sees.
RowFacts weights_of(const Query& query, Doubles& weights) {
    weights.resize(static_cast<size_t>(query.seen));
    dots(query.q, query.k, query.dim, query.scale, weights);
    RowFacts facts;
    facts.largest = weights.empty() ? 0 : *std::max_element(weights.begin(), weights.end());
    for (double& weight : weights) facts.whole += weight = std::exp(weight - facts.largest);
    for (double& weight : weights) weight /= facts.whole;
    return facts;
}

void add(Doubles& sums, double factor, const float* row) {
    for (size_t x = 0; x < sums.size(); ++x) sums[x] += factor * double{row[x]};
}

void store(const Doubles& sums, double factor, float* to) {
    for (const double sum : sums) *to++ = static_cast<float>(factor * sum);
}

// One after the other, on all processors. work(i, room), with room that is the thread's own.
template <class Room, class Work>
void each(int64_t count, const Work& work) {
    std::atomic<int64_t> next{0};
    on_threads(static_cast<int>(std::min<int64_t>(available_processors(), count)), [&] {
        Room room;
        for (int64_t i = 0; (i = next.fetch_add(1)) < count;) work(i, room);
    });
}

// One batch.
class Exact {
public:
    Exact(const Problem& problem, const float* batch, int64_t keys, float* out)
        : problem_(problem), batch_(batch), keys_(keys), out_(out),
          scale_(problem.scale > 0 ? problem.scale : 1 / std::sqrt(static_cast<double>(problem.key_dim()))) {}

    void attend() const {
        each<Room>(rows(), [&](int64_t row, Room& room) {
            const Query query = query_of(row);
            weights_of(query, room.weights);
            room.sums.assign(static_cast<size_t>(query.dim), 0.0);
            add_rows(room.sums, room.weights, query.v);
            store(room.sums, 1, output(0, row));
        });
    }

    // dQ row by row, and what is needed of each row; then dK and dV key by key, from the scores again: no memory for
    // all pairs.
    void differentiate() const {
        std::vector<RowFacts> facts(static_cast<size_t>(rows()));
        each<Room>(rows(),
                   [&](int64_t row, Room& room) { facts[static_cast<size_t>(row)] = query_gradient(row, room); });
        each<Room>(problem_.kv_heads * problem_.keys,
                   [&](int64_t row, Room& room) { key_gradients(row, facts, room); });
    }

private:
    struct Room {
        Doubles weights;
        Doubles slopes; // dP
        Doubles sums;
        Doubles more_sums;
    };

    int64_t rows() const { return problem_.heads * problem_.queries; } // of queries
    int64_t group() const { return problem_.heads / problem_.kv_heads; }

    const float* input(size_t operand, int64_t head) const {
        return operand_at(problem_, problem_.operation->inputs, operand, batch_, static_cast<size_t>(problem_.dim))
            .of(0, head);
    }

    // A row of queries or of keys, heads counted through.
    float* output(size_t operand, int64_t row) const {
        return operand_at(problem_, problem_.operation->outputs, operand, out_, static_cast<size_t>(problem_.dim))
                   .of(0, 0) +
               row * problem_.dim;
    }

    Query query_of(int64_t row) const {
        const int64_t head = row / problem_.queries;
        const int64_t query = row % problem_.queries;
        const Sight sight = sight_of(problem_.mask, problem_.queries, keys_, problem_.window);
        const int64_t hidden = sight.from(query) * problem_.dim;
        return {input(0, head) + query * problem_.dim,
                input(1, head / group()) + hidden,
                input(2, head / group()) + hidden,
                sight.of(query) - sight.from(query),
                problem_.dim,
                scale_};
    }

    const float* output_gradient(int64_t row) const { return input(3, 0) + row * problem_.dim; }

    RowFacts query_gradient(int64_t row, Room& room) const {
        const Query query = query_of(row);
        const float* const d_o = output_gradient(row);
        RowFacts facts = weights_of(query, room.weights);
        room.slopes.resize(room.weights.size());
        dots(d_o, query.v, query.dim, 1, room.slopes);
        for (size_t key = 0; key < room.slopes.size(); ++key) facts.D += room.weights[key] * room.slopes[key];
        for (size_t key = 0; key < room.slopes.size(); ++key)
            room.slopes[key] = room.weights[key] * (room.slopes[key] - facts.D);
        room.sums.assign(static_cast<size_t>(query.dim), 0.0);
        add_rows(room.sums, room.slopes, query.k);
        store(room.sums, query.scale, output(0, row));
        return facts;
    }

    void key_gradients(int64_t row, const std::vector<RowFacts>& facts, Room& room) const {
        const int64_t kv_head = row / problem_.keys;
        const int64_t key = row % problem_.keys;
        const int64_t first = kv_head * group() * problem_.queries; // of the queries that share it
        room.sums.assign(static_cast<size_t>(problem_.dim), 0.0);
        room.more_sums = room.sums;
        for (int64_t i = first; i < first + group() * problem_.queries; ++i) {
            const Query query = query_of(i);
            if (key >= query.seen) continue;
            const RowFacts& of_row = facts[static_cast<size_t>(i)];
            const float* const d_o = output_gradient(i);
            const double weight = of_row.weight(query.score(key));
            const double slope = dot(d_o, query.v + key * query.dim, query.dim);
            add(room.sums, weight * (slope - of_row.D), query.q);
            add(room.more_sums, weight, d_o);
        }
        store(room.sums, query_of(first).scale, output(1, row));
        store(room.more_sums, 1, output(2, row));
    }

    const Problem& problem_;
    const float* batch_;
    const int64_t keys_;
    float* out_;
    const double scale_;
};

} // namespace

std::vector<float> exact_output(const Problem& problem, const std::vector<float>& batch, int64_t keys) {
    std::vector<float> out(problem.batch_output_floats());
    const Exact exact(problem, batch.data(), keys, out.data());
    if (problem.operation == &kForward)
        exact.attend();
    else
        exact.differentiate();
    return out;
}

void ExactValues::compute_next() {
    const Problem& problem = input_.problem();
    std::vector<float> batch(problem.batch_input_floats());
    const int64_t keys = input_.lengths() == nullptr ? problem.keys : input_.lengths()[batch_];
    input_.read_rows(batch_++ * problem.batch_input_rows(), problem.batch_input_rows(), batch.data());
    round_all(element_, batch.data(), batch.size(), batch.data());
    Problem one = problem.of_batches(1);
    one.element = Element::float32;
    const std::vector<float> rows = exact_output(one, batch, keys);
    computed_.clear();
    each_in_file(one, one.operation->outputs, 0, one.output_rows(), rows.data(),
                 [&](uint64_t, const void* numbers, size_t bytes) {
                     const auto* const values = static_cast<const float*>(numbers);
                     computed_.insert(computed_.end(), values, values + bytes / sizeof(float));
                 });
    taken_ = 0;
}

void ExactValues::read(float* to, size_t count) {
    while (count > 0) {
        if (taken_ == computed_.size()) compute_next();
        const size_t step = std::min(count, computed_.size() - taken_);
        to = std::copy_n(computed_.data() + taken_, step, to);
        taken_ += step;
        count -= step;
    }
}

} // namespace hw4
