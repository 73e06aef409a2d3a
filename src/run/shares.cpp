#include "src/run/shares.h"

#include "src/contracts/fixed/rules.h"

namespace hw4 {
namespace {

static_assert(kCutRows % fixed::kTileKeys == 0 && kCutRows % fixed16::kTileKeys == 0, "tiles end where rows are cut");

// The places within a head of queries where it may be cut, by number: 0 is its start.
class Cuts {
public:
    explicit Cuts(const Problem& problem)
        : problem_(problem), first_(problem.mask == Mask::none ? kCutRows : first_under_mask(problem)) {}

    // The cut that leaves about that share of the head's cost before it.
    int64_t nearest(double share) const {
        const double wanted = share * cost_before(problem_.queries);
        int64_t low = 0; // of the cuts with less before them, the last
        int64_t high = count();
        while (low + 1 < high) {
            const int64_t middle = low + (high - low) / 2;
            (cost_before(at(middle)) <= wanted ? low : high) = middle;
        }
        const int64_t below = at(low);
        const int64_t above = high == count() ? problem_.queries : at(high);
        return wanted - cost_before(below) <= cost_before(above) - wanted ? below : above;
    }

private:
    // The first row before which some are cut off and a multiple of kCutRows keys is seen.
    static int64_t first_under_mask(const Problem& problem) {
        const int64_t hidden = problem.keys - problem.queries; // row q - 1 sees q + hidden keys
        const int64_t seen = hidden < 0 ? kCutRows : (hidden / kCutRows + 1) * kCutRows;
        return seen - hidden;
    }

    int64_t at(int64_t number) const { return number == 0 ? 0 : first_ + (number - 1) * kCutRows; }
    // With the start.
    int64_t count() const { return first_ >= problem_.queries ? 1 : 2 + (problem_.queries - 1 - first_) / kCutRows; }

    double cost_before(int64_t row) const {
        if (row == 0) return 0;
        return visible_pairs(problem_.mask, row, visible_keys(problem_.mask, problem_.queries, problem_.keys, row - 1));
    }

    const Problem& problem_;
    const int64_t first_;
};

} // namespace

std::vector<QueryRows> divide(const Problem& problem, int shares) {
    const bool by_keys = gives_rows_of_keys(*problem.operation);
    const int64_t units = problem.batches * (by_keys ? problem.kv_heads : problem.heads);
    const int64_t unit_rows = problem.batches * problem.heads * problem.queries / units;
    const bool whole_units = by_keys || units / shares >= kManyUnits;
    const Cuts cuts(problem);
    const auto start_of = [&](int64_t share) {
        const int64_t unit = units / shares * share + units % shares * share / shares;
        const int64_t more = units % shares * share % shares; // of a unit, in its parts of one for each share
        if (whole_units) return (unit + (2 * more >= shares ? 1 : 0)) * unit_rows;
        return unit * unit_rows + (more == 0 ? 0 : cuts.nearest(static_cast<double>(more) / shares));
    };
    std::vector<QueryRows> divided;
    for (int share = 0; share < shares; ++share) divided.push_back({start_of(share), start_of(share + 1)});
    return divided;
}

} // namespace hw4
