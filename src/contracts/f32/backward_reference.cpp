// The contract "f32" for backward as one thread with plain loops, in the order src/contracts/f32/backward.h states it.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "src/contracts/contract.h"
#include "src/contracts/f32/backward.h"
#include "src/contracts/fma_clones.h"

namespace hw4 {
namespace {

using Floats = std::vector<float>;

Floats zeros(int64_t rows, int64_t columns) { return Floats(static_cast<size_t>(rows * columns)); }

void add_to(float* sum, const float* part, int64_t count) {
    for (int64_t x = 0; x < count; ++x) sum[x] += part[x];
}

// sums += parts, then parts = 0.
void close_into(Floats& sums, Floats& parts) {
    add_to(sums.data(), parts.data(), static_cast<int64_t>(sums.size()));
    std::fill(parts.begin(), parts.end(), 0.0f);
}

// One head of queries, and what forward leaves of it.
struct Head {
    const float* q;
    const float* dout;
    float* dq;
    Floats out;
    std::vector<RowStatistics> rows;
};

// Rows of keys or values, [N][d], transposed so that the loop over pairs runs over contiguous memory.
Floats transposed(const float* rows, int64_t n, int64_t d) {
    Floats columns = zeros(d, n);
    for (int64_t j = 0; j < n; ++j)
        for (int64_t t = 0; t < d; ++t) columns[static_cast<size_t>(t * n + j)] = rows[j * d + t];
    return columns;
}

// dot() of a row with the first `count` of the n transposed rows.
HW4_FMA_CLONES void dots(const float* row, const float* columns, int64_t n, int64_t d, int64_t count, float* chains,
                         float* to) {
    std::fill(to, to + count, 0.0f);
    for (int64_t first = 0; first < d; first += kScoreColumns) {
        std::fill(chains, chains + count, 0.0f);
        for (int64_t t = first; t < std::min(first + kScoreColumns, d); ++t)
            for (int64_t j = 0; j < count; ++j) chains[j] = fused(row[t], columns[t * n + j], chains[j]);
        add_to(to, chains, count);
    }
}

HW4_FMA_CLONES void add_products(float factor, const float* row, float* chain, int64_t d) {
    for (int64_t x = 0; x < d; ++x) chain[x] = fused(factor, row[x], chain[x]);
}

// The gradients of one head of keys and values, with the heads of queries that share it.
class Gradients {
public:
    explicit Gradients(const UnitOperands& unit)
        : unit_(unit), d_(unit.dim), n_(unit.keys), scale_(scale_for(unit.key_dim(), unit.scale)),
          g_(gradient_scale_for(unit.key_dim(), unit.scale)), k_(unit.in[1]), v_(unit.in[2]),
          kt_(transposed(k_, n_, d_)), vt_(transposed(v_, n_, d_)), p_(zeros(kSegmentRows, n_)), ds_(p_),
          scratch_(zeros(1, n_)), chain_(zeros(1, d_)), group_(chain_), total_(chain_), dk_(zeros(n_, d_)), dv_(dk_) {}

    void compute() {
        for (int64_t h = 0; h < unit_.group; ++h) add_head(forward(h));
        for (int64_t i = 0; i < n_ * d_; ++i) {
            unit_.out[1][i] = scaled_gradient(dk_[static_cast<size_t>(i)], g_);
            unit_.out[2][i] = value_gradient(dv_[static_cast<size_t>(i)]);
        }
    }

private:
    Head forward(int64_t h) const {
        const int64_t first = h * unit_.queries * d_;
        Head head{unit_.in[0] + first, unit_.in[3] + first, unit_.out[0] + first, zeros(unit_.queries, d_),
                  std::vector<RowStatistics>(static_cast<size_t>(unit_.queries))};
        UnitOperands of_head = unit_;
        of_head.in[0] = head.q;
        of_head.out[0] = head.out.data();
        of_head.statistics = head.rows.data();
        f32_forward(of_head);
        return head;
    }

    void add_head(const Head& head) {
        Floats dk_total = zeros(n_, d_);
        Floats dv_total = dk_total;
        Floats dk_group = dk_total;
        Floats dv_group = dk_total;
        for (int64_t first = 0; first < unit_.queries; first += kSegmentRows) {
            const int64_t end = std::min(first + kSegmentRows, unit_.queries);
            for (int64_t i = first; i < end; ++i) {
                form_pairs(head, i, row_of(p_, i), row_of(ds_, i));
                sum_over_keys(row_of(ds_, i), unit_.visible(i), head.dq + i * d_);
            }
            for (int64_t j = 0; j < n_; ++j) {
                sum_over_queries(p_, head.dout, j, first, end, dv_group.data() + j * d_);
                sum_over_queries(ds_, head.q, j, first, end, dk_group.data() + j * d_);
            }
            if (end % kGroupRows == 0 || end == unit_.queries) {
                close_into(dk_total, dk_group);
                close_into(dv_total, dv_group);
            }
        }
        close_into(dk_, dk_total);
        close_into(dv_, dv_total);
    }

    // P and dS of a query and the keys that it sees.
    void form_pairs(const Head& head, int64_t i, float* p, float* ds) {
        const int64_t seen = unit_.visible(i);
        const RowStatistics& row = head.rows[static_cast<size_t>(i)];
        const Reference reference = reference_of(row, scale_);
        const float inv = inverse_of(row);
        const float D = dot(head.dout + i * d_, head.out.data() + i * d_, d_);
        dots(head.q + i * d_, kt_.data(), n_, d_, seen, scratch_.data(), p);
        dots(head.dout + i * d_, vt_.data(), n_, d_, seen, scratch_.data(), ds);
        for (int64_t j = 0; j < seen; ++j) {
            p[j] = probability(reference.weight(p[j], scale_), inv);
            ds[j] = score_gradient(p[j], ds[j], D);
        }
    }

    // A row of dQ: the last segments and groups come first.
    void sum_over_keys(const float* ds, int64_t seen, float* dq) {
        std::fill(group_.begin(), group_.end(), 0.0f);
        std::fill(total_.begin(), total_.end(), 0.0f);
        for (int64_t first = (seen - 1) / kSegmentRows * kSegmentRows; seen > 0 && first >= 0; first -= kSegmentRows) {
            std::fill(chain_.begin(), chain_.end(), 0.0f);
            for (int64_t j = first; j < std::min(first + kSegmentRows, seen); ++j)
                add_products(ds[j], k_ + j * d_, chain_.data(), d_);
            add_to(group_.data(), chain_.data(), d_);
            if (first % kGroupRows == 0) close_into(total_, group_);
        }
        for (const float total : total_) *dq++ = scaled_gradient(total, g_);
    }

    // Adds the queries of a segment that see the key to the key's group.
    void sum_over_queries(const Floats& pairs, const float* rows, int64_t j, int64_t first, int64_t end, float* group) {
        std::fill(chain_.begin(), chain_.end(), 0.0f);
        for (int64_t i = first; i < end; ++i)
            if (j < unit_.visible(i)) add_products(row_of(pairs, i)[j], rows + i * d_, chain_.data(), d_);
        add_to(group, chain_.data(), d_);
    }

    // The pairs of query i within the segment's pairs.
    const float* row_of(const Floats& pairs, int64_t i) const { return pairs.data() + i % kSegmentRows * n_; }
    float* row_of(Floats& pairs, int64_t i) const { return pairs.data() + i % kSegmentRows * n_; }

    const UnitOperands& unit_;
    const int64_t d_;
    const int64_t n_; // keys
    const Scale scale_;
    const float g_;
    const float* const k_;
    const float* const v_;
    const Floats kt_;
    const Floats vt_;
    Floats p_; // of a segment of queries, [query][key]
    Floats ds_;
    Floats scratch_; // [key]
    Floats chain_;   // sums of a row
    Floats group_;
    Floats total_;
    Floats dk_; // sums of the totals of all heads
    Floats dv_;
};

} // namespace

void f32_backward(const UnitOperands& unit) { Gradients(unit).compute(); }

} // namespace hw4
