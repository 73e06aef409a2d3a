// A process by itself.
#pragma once

#include <unistd.h>

#include <array>
#include <cstdlib>

#include "src/ranks/ranks.h"

namespace hw4 {

// Empty where the system does not tell.
inline std::string machine_name() {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

class OneRank : public Ranks {
public:
    int rank() const override { return 0; }
    int count() const override { return 1; }
    int node_rank() const override { return 0; }
    int node_count() const override { return 1; }
    std::string node() const override { return machine_name(); }
    std::vector<std::string> exchange(const std::string& mine) override { return {mine}; }
    [[noreturn]] void abort(ExitCode code) noexcept override { ::_exit(static_cast<int>(code)); }
};

} // namespace hw4
