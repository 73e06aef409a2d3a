// How a measurement ends: what cannot run, or fails, becomes words in a row.
#pragma once

#include <new>
#include <string>

#include "src/base/error.h"
#include "src/bench/memory_count.h"
#include "src/bench/row.h"
#include "src/bench/workbench.h"

namespace hw4::bench {

struct Outcome {
    Status status = Status::ok;
    std::string reason;      // why it is not ok
    size_t wanted_bytes = 0; // of oom: by the allocation that failed
    size_t free_bytes = 0;   // and what there was
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
