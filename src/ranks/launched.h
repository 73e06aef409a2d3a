// Tells from the environment whether a process is alone or one of several that were started together.
#pragma once

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/ranks/ranks.h"

namespace hw4 {

struct Launched {
    int tasks = 1;
    std::string variable; // the variable with the number; empty: none
};

// A variable of the environment, null where there is none.
using Environment = std::function<const char*(const char* name)>;

// Supports Open MPI, MPICH and its derivatives, and Slurm steps. A job's own script is not a task, although Slurm gives
// it the job's number of tasks (SLURM_NTASKS).
Launched launched_as(const Environment& environment);
Launched launched_as();

// The message for a user when tasks cannot reach each other, with the reason and the way to run just one.
std::string alone_among(const Launched& launched, const std::string& why);

// Empty where the system does not report it.
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
