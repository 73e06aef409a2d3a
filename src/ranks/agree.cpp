#include "src/ranks/agree.h"

#include <algorithm>
#include <new>

#include "src/problem/domain.h"
#include "src/ranks/parcel.h"

namespace hw4 {

namespace {

std::string packed(const std::vector<std::optional<RankFailure>>& failures) {
    Parcel parcel;
    for (const std::optional<RankFailure>& failure : failures)
        if (failure) parcel.put(failure->code).put(failure->place).put(failure->message);
    return parcel.bytes();
}

} // namespace

std::optional<RankFailure> attempt(const std::function<void()>& work) {
    try {
        work();
        return std::nullopt;
    } catch (const Flaw& flaw) {
        return RankFailure{flaw.code(), flaw.place(), flaw.what()};
    } catch (const Error& error) {
        return RankFailure{error.code(), RankFailure::kNoPlace, error.what()};
    } catch (const std::bad_alloc&) {
        return RankFailure{ExitCode::out_of_memory, RankFailure::kNoPlace, "out of host memory"};
    } catch (const std::exception& error) {
        return RankFailure{ExitCode::internal, RankFailure::kNoPlace, error.what()};
    }
}

void agree(Ranks& ranks, const std::vector<std::optional<RankFailure>>& failures) {
    const std::vector<std::string> all = ranks.exchange(packed(failures));
    std::optional<RankFailure> first;
    size_t of = 0;
    for (size_t rank = 0; rank < all.size(); ++rank)
        for (OpenedParcel parcel(all[rank]); !parcel.empty();) {
            RankFailure failure{parcel.take<ExitCode>(), parcel.take<int64_t>(), ""};
            failure.message = parcel.take_text();
            if (first && failure.place >= first->place) continue;
            first = failure;
            of = rank;
        }
    if (!first) return;
    const bool by_rank = first->place == RankFailure::kNoPlace && of > 0;
    throw AgreedError(first->code, first->message + (by_rank ? " (rank " + std::to_string(of) + ")" : ""));
}

void agree(Ranks& ranks, const std::function<void()>& work) {
    if (ranks.count() == 1)
        work();
    else
        agree(ranks, {attempt(work)});
}

int share_of_processors(Ranks& ranks, int available, const std::string& set) {
    const std::string mine = Parcel().put(ranks.node()).put(set).bytes();
    const std::vector<std::string> all = ranks.exchange(mine);
    const auto sharing = static_cast<int>(std::count(all.begin(), all.end(), mine));
    return std::max(1, available / sharing); // NOLINT(clang-analyzer-core.DivideZero): counts this rank too
}

} // namespace hw4
