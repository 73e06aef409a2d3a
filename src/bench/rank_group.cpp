#include "src/bench/rank_group.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "src/bench/row_json.h"
#include "src/bench/sampling.h"
#include "src/bench/summation.h"
#include "src/ranks/parcel.h"

namespace hw4::bench {
namespace {

using Clock = std::chrono::steady_clock;

std::string counted(int count, const char* noun) {
    return count == 1 ? std::string("one ") + noun : std::to_string(count) + " " + noun + "s";
}

} // namespace

RankGroup group_of(Ranks& ranks, const std::string& device, const std::string& library) {
    const std::string card = device == "gpu" ? card_identity() : "";
    std::set<std::string> machines;
    std::set<std::string> cards;
    for (const std::string& place : ranks.exchange(Parcel().put(ranks.node()).put(card).bytes())) {
        machines.insert(OpenedParcel(place).take_text());
        if (device == "gpu") cards.insert(place);
    }
    return {ranks.count(), static_cast<int>(machines.size()), static_cast<int>(cards.size()), device, library};
}

std::string words_of(const RankGroup& group) {
    std::string words = counted(group.ranks, "rank") + " on " + counted(group.machines, "machine");
    words += group.device == "gpu" ? ", on " + counted(group.cards, "GPU") : ", on the CPU";
    if (group.shares_cards()) words += " that ranks share";
    return words + (group.library.empty() ? "" : ", " + group.library);
}

void add_group(JsonFields& fields, const RankGroup& group) {
    fields.add("device", json_string(group.device));
    fields.add("ranks", int64_t{group.ranks});
    fields.add("machines", int64_t{group.machines});
    fields.add("cards", int64_t{group.cards});
    fields.add("shares_cards", group.shares_cards() ? "true" : "false");
    fields.add("library", text_or_null(group.library));
}

Outcome agreed_outcome(Ranks& ranks, const std::function<void()>& work) {
    return agreed_outcome(ranks, outcome_of(work));
}

Outcome agreed_outcome(Ranks& ranks, const Outcome& mine) {
    const std::string told = Parcel().put(mine.status).put(mine.reason).bytes();
    for (const std::string& of_rank : ranks.exchange(told)) {
        OpenedParcel parcel(of_rank);
        const auto status = parcel.take<Status>();
        if (status != Status::ok) return {status, parcel.take_text()};
    }
    return mine;
}

std::vector<double> largest_of_ranks(Ranks& ranks, const std::vector<double>& mine) {
    Parcel parcel;
    for (const double number : mine) parcel.put(number);
    std::vector<double> largest = mine;
    for (const std::string& of_rank : ranks.exchange(parcel.bytes())) {
        OpenedParcel numbers(of_rank);
        for (double& number : largest) number = std::max(number, numbers.take<double>());
    }
    return largest;
}

std::vector<double> slowest_seconds(Ranks& ranks, Collectives& collectives, const CollectiveRules& rules,
                                    const std::function<void()>& work) {
    const auto once = [&] {
        collectives.meet();
        const Clock::time_point start = Clock::now();
        work();
        return std::chrono::duration<double>(Clock::now() - start).count();
    };
    double last = 0;
    for (int i = 0; i < rules.warmup; ++i) {
        last = largest_of_ranks(ranks, {once()}).front();
        if (last > rules.limit_s / kLeastRuns) break; // the same on all ranks
    }
    const double fitting = last > 0 ? rules.limit_s / last : rules.repeats;
    const int least = std::min(kLeastRuns, rules.repeats);
    const int repeats = static_cast<int>(std::clamp<double>(fitting, least, rules.repeats));
    std::vector<double> seconds;
    for (int i = 0; i < repeats; ++i) seconds.push_back(once());
    return largest_of_ranks(ranks, seconds);
}

} // namespace hw4::bench
