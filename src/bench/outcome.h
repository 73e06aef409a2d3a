// The result of a measurement: a cell that cannot run, or fails, becomes words in a row.
#pragma once

#include <new>
#include <string>

#include "src/base/error.h"
#include "src/bench/memory_count.h"
#include "src/bench/row.h"
#include "src/bench/workbench.h"

namespace hw4::bench {

// How a run ends, from the outcomes of its cells.
class Ending {
public:
    void add(Status status, const std::string& reason) {
        ++cells_;
        if (status == Status::ok) ++ran_;
        if (status == Status::failed && failed_++ == 0) why_failed_ = reason;
        if (status != Status::ok && why_none_.empty()) why_none_ = reason;
    }
    int cells() const { return cells_; }

    ExitCode code() const {
        if (failed_ > 0) return ExitCode::internal;
        return ran_ > 0 ? ExitCode::ok : ExitCode::no_gpu;
    }

    // Why the code is not ok, in one line; empty where it is.
    std::string why() const {
        if (failed_ > 0)
            return std::to_string(failed_) + " of " + std::to_string(cells_) +
                   " cells failed: " + one_line(why_failed_);
        return ran_ > 0 ? "" : "no cell ran: " + one_line(why_none_);
    }

private:
    int cells_ = 0;
    int ran_ = 0;
    int failed_ = 0;
    std::string why_failed_; // of the first failure
    std::string why_none_;   // of the first cell that did not run
};

template <class Work>
Outcome outcome_of(const Work& work) {
    try {
        work();
        return {};
    } catch (const OutOfMemory& error) {
        return {Status::oom,
                "needs " + std::to_string(error.wanted) + " bytes more, " + std::to_string(error.free) + " are free",
                error.wanted, error.free};
    } catch (const std::bad_alloc&) {
        return {Status::oom, "out of host memory"};
    } catch (const Unsupported& error) {
        return {Status::unsupported, one_line(error.reason)};
    } catch (const Error& error) {
        return {error.code() == ExitCode::out_of_memory ? Status::oom : Status::failed, error.what()};
    } catch (const std::exception& error) {
        return {Status::failed, one_line(error.what())};
    }
}

} // namespace hw4::bench
