#include "src/bench/memory_in_use.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <string>

namespace hw4::bench {
namespace {

// Contents of a piece of memory, from one write to the last read before the next.
struct Life {
    size_t first;
    size_t last;
    bool is_state; // kept from step to step
    Allocation allocation;
};

struct Piece {
    size_t bytes = 0;
    std::vector<Life> lives;
};

// "products, forward", or what the step finds in memory.
const char* purpose_of(const Use& use) {
    static const auto names = [] {
        std::array<std::array<std::string, std::size(kStepPhases)>, std::size(kStepOperations)> all;
        for (const StepOperation operation : kStepOperations)
            for (const StepPhase phase : kStepPhases)
                all[static_cast<size_t>(operation)][static_cast<size_t>(phase)] =
                    std::string(name_of(operation)) + ", " + name_of(phase);
        return all;
    }();
    if (use.is_written) return names[static_cast<size_t>(use.operation)][static_cast<size_t>(use.phase)].c_str();
    if (use.phase == StepPhase::optimizer) return "m and v";
    return use.operation == StepOperation::rope ? "RoPE's table" : "parameters";
}

// Cuts allocations where operations name an address.
std::map<uintptr_t, Piece> pieces_of(const std::map<uintptr_t, size_t>& held, const std::vector<Use>& uses) {
    std::map<uintptr_t, Piece> pieces;
    for (const auto& [at, bytes] : held) pieces[at];
    for (const Use& use : uses) pieces[use.at];
    for (auto piece = pieces.begin(); piece != pieces.end(); ++piece) {
        const auto next = std::next(piece);
        const auto after = held.upper_bound(piece->first);
        if (after == held.begin()) continue; // not the step's
        const auto& [begin, bytes] = *std::prev(after);
        const uintptr_t end = begin + bytes;
        if (piece->first < end)
            piece->second.bytes = (next == pieces.end() ? end : std::min(end, next->first)) - piece->first;
    }
    return pieces;
}

} // namespace

MemoryInUse memory_in_use(const std::map<uintptr_t, size_t>& held, const std::vector<Use>& all,
                          const std::vector<double>& seconds, size_t scratch, bool forward_alone) {
    std::vector<Use> uses = all;
    if (forward_alone)
        uses.erase(std::find_if(uses.begin(), uses.end(), [](const Use& u) { return u.phase != StepPhase::forward; }),
                   uses.end());
    MemoryInUse result;
    if (uses.empty()) return result;
    const size_t end = uses.back().lap;
    std::map<uintptr_t, Piece> pieces = pieces_of(held, all);
    for (const Use& use : uses)
        for (auto piece = pieces.lower_bound(use.at); piece != pieces.end() && piece->first < use.at + use.bytes;
             ++piece) {
            std::vector<Life>& lives = piece->second.lives;
            const Allocation named = {0, piece->second.bytes, purpose_of(use)};
            if (lives.empty() && !use.is_written)
                lives.push_back({0, end, true, named});
            else if (lives.empty() || (use.is_written && lives.back().last != use.lap && !lives.back().is_state))
                lives.push_back({use.lap, use.lap, false, named});
            else
                lives.back().last = std::max(lives.back().last, use.lap);
        }
    std::vector<Life> lives = {{0, end, true, {0, scratch, "scratch of operations"}}};
    for (const auto& [at, piece] : pieces) lives.insert(lives.end(), piece.lives.begin(), piece.lives.end());
    std::vector<double> starts = {0};
    for (const double lap : seconds) starts.push_back(starts.back() + lap);
    std::multimap<size_t, MemoryEvent> events; // in a lap, first what is taken
    MemoryCount count(std::numeric_limits<size_t>::max());
    for (const Life& life : lives) {
        if (life.allocation.bytes == 0) continue;
        const Allocation allocation = count.take(life.allocation.bytes, life.allocation.purpose); // another address
        events.insert({2 * life.first, {MemoryEvent::Kind::taken, starts[life.first], allocation}});
        events.insert({2 * life.last + 1, {MemoryEvent::Kind::given_back, starts[life.last + 1], allocation}});
    }
    size_t in_use = 0;
    for (const auto& [order, event] : events) {
        in_use += order % 2 == 0 ? event.allocation.bytes : -event.allocation.bytes;
        result.peak = std::max(result.peak, in_use);
        result.events.push_back(event);
    }
    return result;
}

} // namespace hw4::bench
