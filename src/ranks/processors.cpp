#include "src/ranks/processors.h"

#include <algorithm>
#include <vector>

#include "src/ranks/parcel.h"

namespace hw4 {

int share_of_processors(Ranks& ranks, int available, const std::string& set) {
    const std::string mine = Parcel().put(ranks.node()).put(set).bytes();
    const std::vector<std::string> all = ranks.exchange(mine);
    const auto sharing = static_cast<int>(std::count(all.begin(), all.end(), mine));
    return std::max(1, available / sharing); // NOLINT(clang-analyzer-core.DivideZero): its own is among them
}

} // namespace hw4
