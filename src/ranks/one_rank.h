// A process by itself.
#pragma once

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "src/ranks/ranks.h"

namespace hw4 {

// Empty where the system does not tell.
inline std::string machine_name() {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

class OneRank : public Ranks {
public:
    explicit OneRank(std::string why_no_case = "") : why_no_case_(std::move(why_no_case)) {}

    int rank() const override { return 0; }
    int count() const override { return 1; }
    int node_rank() const override { return 0; }
    std::string node() const override { return machine_name(); }
    std::vector<std::string> exchange(const std::string& mine) override { return {mine}; }
    [[noreturn]] void abort(ExitCode code) noexcept override { ::_exit(static_cast<int>(code)); }
    std::string why_no_case() const override { return why_no_case_; }

private:
    std::string why_no_case_;
};

} // namespace hw4
