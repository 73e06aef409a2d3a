// Whether this process is one of several that were started together, as the environment tells.
#pragma once

#include <functional>
#include <string>

namespace hw4 {

struct Launched {
    int tasks = 1;
    std::string variable; // that told so; empty: none did
};

// A variable of the environment, null where there is none.
using Environment = std::function<const char*(const char* name)>;

// By Open MPI, by MPICH and its kin, or by a step of Slurm's. A job's own script is no task, though Slurm tells it of
// those that the job may have (SLURM_NTASKS).
Launched launched_as(const Environment& environment);
Launched launched_as();

// What to say to a user whose tasks do not know of one another, and why; with the way out where he wants just one.
std::string alone_among(const Launched& launched, const std::string& why);

} // namespace hw4
