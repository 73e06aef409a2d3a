#include "src/run/shares.h"

#include "src/contracts/fixed/rules.h"

namespace hw4 {
namespace {

static_assert(kCutRows % fixed::kTileKeys == 0 && kCutRows % fixed16::kTileKeys == 0, "tiles end where rows are cut");

// The numbered places where a head of queries may be cut: 0 is its start.
class Cuts {
public:
    explicit Cuts(const Problem& problem)
        : problem_(problem), first_(problem.mask == Mask::none ? kCutRows : first_under_mask(problem)) {}

    // The cut before which about this fraction of the head's cost lies.
    int64_t nearest(double share) const {
        const double wanted = share * cost_before(problem_.queries);
        int64_t low = 0; // the last cut with less before it
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
    // The first row before which rows are cut off and which sees a multiple of kCutRows keys.
    static int64_t first_under_mask(const Problem& problem) {
        const int64_t hidden = problem.keys - problem.queries; // row q - 1 sees q + hidden keys
        const int64_t seen = hidden < 0 ? kCutRows : (hidden / kCutRows + 1) * kCutRows;
        return seen - hidden;
    }

    int64_t at(int64_t number) const { return number == 0 ? 0 : first_ + (number - 1) * kCutRows; }
    // Includes the start.
    int64_t count() const { return first_ >= problem_.queries ? 1 : 2 + (problem_.queries - 1 - first_) / kCutRows; }

    double cost_before(int64_t row) const {
        if (row == 0) return 0;
        return visible_pairs(problem_.mask, row, visible_keys(problem_.mask, problem_.queries, problem_.keys, row - 1),
                             problem_.window);
    }

    const Problem& problem_;
    const int64_t first_;
};

// The cost of a pair of a query and a key, in products of a row: forward makes two; the comments list the others.
constexpr double kForwardCost = 2;
constexpr double kQueryCost = kForwardCost + 3; // scores, dP, dQ
constexpr double kBlockCost = 4;                // scores, dP, dK, dV
constexpr double kWholeCost = kForwardCost + 5;

// A head of keys with gradients from several ranks: divides its keys into blocks, one rank each, so that the
// slowest rank is as fast as possible; the other ranks share the rows of queries.
class KeyBlocks {
public:
    KeyBlocks(const Problem& problem, int shares) : problem_(problem) {
        double enough = kWholeCost * pairs_from(0); // for two ranks, and one alone
        if (shares == 1) return;
        double too_little = 0;
        constexpr int kHalvings = 40;
        for (int i = 0; i < kHalvings; ++i) {
            const double middle = (too_little + enough) / 2;
            (suffices(middle, shares) ? enough : too_little) = middle;
        }
        starts_ = starts_within(enough, shares);
    }

    // There are no blocks where the head is not shared.
    size_t count() const { return starts_.size(); }
    int64_t first(size_t block) const { return starts_[block]; }
    int64_t end(size_t block) const { return block + 1 < count() ? starts_[block + 1] : problem_.keys; }

private:
    double pairs_from(int64_t key) const { return visible_pairs(problem_.mask, problem_.queries, problem_.keys - key); }

    // The pairs of the rows that see the key, with all keys that these rows see.
    double pairs_of_rows_seeing(int64_t key) const {
        const int64_t before = key + 1 - sight_of(problem_.mask, problem_.queries, problem_.keys).first;
        const bool by_all = problem_.mask == Mask::none || before <= 0;
        return pairs_from(0) - (by_all ? 0 : visible_pairs(problem_.mask, before, key));
    }

    double cost(int64_t first, int64_t end) const {
        return kForwardCost * pairs_of_rows_seeing(first) + kBlockCost * (pairs_from(first) - pairs_from(end));
    }

    // The end of the largest block from this key on that costs no more; `first` where there is none.
    int64_t end_within(double most, int64_t first) const {
        int64_t low = 0; // cuts after `first`
        int64_t high = (problem_.keys - first + kCutKeys - 1) / kCutKeys + 1;
        while (low + 1 < high) {
            const int64_t middle = low + (high - low) / 2;
            (cost(first, cut(first, middle)) <= most ? low : high) = middle;
        }
        return cut(first, low);
    }
    int64_t cut(int64_t first, int64_t number) const { return std::min(first + number * kCutKeys, problem_.keys); }

    // The fewest blocks that cost no more each, up to `shares`; none where it is impossible.
    std::vector<int64_t> starts_within(double most, int shares) const {
        std::vector<int64_t> starts;
        for (int64_t first = 0; first < problem_.keys;) {
            const int64_t end = end_within(most, first);
            if (end == first || starts.size() == static_cast<size_t>(shares)) return {};
            starts.push_back(first);
            first = end;
        }
        return starts;
    }

    bool suffices(double most, int shares) const {
        const size_t blocks = starts_within(most, shares).size();
        const double left = shares - static_cast<double>(blocks);
        return blocks > 0 && left > 0 && kQueryCost * pairs_from(0) / left <= most;
    }

    const Problem problem_; // one head of keys, with all its heads of queries
    std::vector<int64_t> starts_;
};

// The shares of one head of keys with its heads of queries, counted through the batches.
std::vector<std::vector<CasePart>> shared_gradients(const Problem& problem, int64_t head, int shares) {
    Problem of_head = problem.of_batches(1);
    of_head.heads = problem.heads / problem.kv_heads;
    of_head.kv_heads = 1;
    const int64_t rows = of_head.heads * problem.queries;
    const std::vector<CasePart> all = parts_of(problem, {head * rows, (head + 1) * rows});
    const KeyBlocks blocks(of_head, shares);
    if (blocks.count() == 0) return {all};
    std::vector<std::vector<CasePart>> divided;
    for (const QueryRows& share : divide(of_head.of_operation(kForward), shares - static_cast<int>(blocks.count()))) {
        divided.push_back(parts_of(problem, {head * rows + share.first, head * rows + share.end}));
        for (CasePart& part : divided.back()) part.problem.operation = &kQueryGradients;
    }
    for (size_t block = 0; block < blocks.count(); ++block) {
        divided.push_back(all);
        Problem& of_block = divided.back().front().problem;
        of_block.operation = &kKeyGradients;
        of_block.first_key = blocks.first(block);
        of_block.block_keys = blocks.end(block) - blocks.first(block);
    }
    return divided;
}

} // namespace

std::vector<QueryRows> divide(const Problem& problem, int shares) {
    const bool by_keys = gives_rows_of_keys(*problem.operation);
    const int64_t units = problem.batches * (by_keys ? problem.kv_heads : problem.heads);
    const int64_t unit_rows = problem.batches * problem.heads * problem.queries / units;
    const bool whole_units = by_keys || units / shares >= kManyUnits;
    const Cuts cuts(problem);
    const auto start_of = [&](int64_t share) {
        const int64_t unit = units / shares * share + units % shares * share / shares;
        const int64_t more = units % shares * share % shares; // of a unit divided into one part per share
        if (whole_units) return (unit + (2 * more >= shares ? 1 : 0)) * unit_rows;
        return unit * unit_rows + (more == 0 ? 0 : cuts.nearest(static_cast<double>(more) / shares));
    };
    std::vector<QueryRows> divided;
    for (int share = 0; share < shares; ++share) divided.push_back({start_of(share), start_of(share + 1)});
    return divided;
}

// The share of a head is that of the middle of its pairs, counted through all heads.
std::vector<QueryRows> divide_by_lengths(const Problem& problem, int shares, const int32_t* lengths) {
    const auto pairs_of_unit = [&](int64_t unit) { return problem.of_keys(lengths[unit / problem.heads]).pairs(); };
    double all = 0;
    for (int64_t unit = 0; unit < problem.units(); ++unit) all += pairs_of_unit(unit);
    std::vector<QueryRows> divided(static_cast<size_t>(shares), QueryRows{0, 0});
    double before = 0;
    for (int64_t unit = 0; unit < problem.units(); ++unit) {
        const double pairs = pairs_of_unit(unit);
        const auto share = static_cast<size_t>((before + pairs / 2) / all * shares);
        divided[std::min(share, divided.size() - 1)].end = (unit + 1) * problem.queries;
        before += pairs;
    }
    for (size_t share = 1; share < divided.size(); ++share) {
        divided[share].first = divided[share - 1].end;
        divided[share].end = std::max(divided[share].end, divided[share].first);
    }
    return divided;
}

std::vector<std::vector<CasePart>> divide_into_parts(const Problem& problem, int shares, Gradients gradients,
                                                     const int32_t* lengths) {
    std::vector<std::vector<CasePart>> divided;
    const int64_t heads = problem.batches * problem.kv_heads;
    if (gradients == Gradients::cut && problem.operation == &kBackward && heads < shares) {
        for (int64_t head = 0; head < heads; ++head) {
            const auto of_head = static_cast<int>((head + 1) * shares / heads - head * shares / heads);
            for (std::vector<CasePart>& parts : shared_gradients(problem, head, of_head))
                divided.push_back(std::move(parts));
        }
    } else {
        const bool by_lengths = lengths != nullptr;
        for (const QueryRows& rows : by_lengths ? divide_by_lengths(problem, shares, lengths) : divide(problem, shares))
            divided.push_back(parts_of(problem, rows));
    }
    return divided;
}

} // namespace hw4
