// How ranks fail: all together, by one line and one exit code. A rank whose work has failed does not leave; it says so
// in the next exchange, and then all of them end.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/ranks/ranks.h"

namespace hw4 {

// Known to all ranks. Only one of them need say it.
class AgreedError : public Error {
public:
    using Error::Error;
};

struct RankFailure {
    static constexpr int64_t kNoPlace = std::numeric_limits<int64_t>::max();

    ExitCode code = ExitCode::internal;
    int64_t place = kNoPlace; // of a flaw, in the file
    std::string message;
};

// What `work` throws.
std::optional<RankFailure> attempt(const std::function<void()>& work);

// Called by all. Where any of them has a failure, throws AgreedError: the flaw with the smallest place, so that always
// the same one is named, or else the first rank's failure, with the rank's number.
void agree(Ranks& ranks, const std::vector<std::optional<RankFailure>>& failures);

// Every rank does its work, and all of them know how it went. By itself a rank throws what `work` does.
void agree(Ranks& ranks, const std::function<void()>& work);

// Called by all: of `available` processors, which are `set`, those for this rank. Who may run on the same ones of the
// same machine divide them; whom a launcher has bound to some of its own has all of those.
int share_of_processors(Ranks& ranks, int available, const std::string& set);

} // namespace hw4
