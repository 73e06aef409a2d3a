// Ranks fail together, with one line and one exit code. A rank whose work has failed does not leave; it reports the
// failure in the next exchange, and then all ranks end.
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

// An error that all ranks know. Only one of them needs to print it.
class AgreedError : public Error {
public:
    using Error::Error;
};

struct RankFailure {
    static constexpr int64_t kNoPlace = std::numeric_limits<int64_t>::max();

    ExitCode code = ExitCode::internal;
    int64_t place = kNoPlace; // of the bad value in the file
    std::string message;
};

// Returns what `work` throws.
std::optional<RankFailure> attempt(const std::function<void()>& work);

// Called by all ranks. Where any rank has a failure, throws AgreedError: the bad value with the smallest place in the
// file, which is always the same, or else the first rank's failure, with the rank's number.
void agree(Ranks& ranks, const std::vector<std::optional<RankFailure>>& failures);

// Every rank does its work, and all learn the result. A single rank throws what `work` throws.
void agree(Ranks& ranks, const std::function<void()>& work);

// Called by all ranks: the number of processors for this rank, of the `available` ones in `set`. Ranks with the same
// set on the same machine divide them; a rank that a launcher has bound to its own processors gets all of those.
int share_of_processors(Ranks& ranks, int available, const std::string& set);

} // namespace hw4
