// The results of a cell.
#pragma once

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "src/bench/cell.h"

namespace hw4::bench {

// oom: out of memory. unsupported: this machine or build lacks it. failed: an error, or a wrong result. skipped: the
// pass was not requested.
enum class Status { ok, oom, unsupported, failed, skipped };

constexpr const char* name_of(Status status) {
    switch (status) {
    case Status::ok: return "ok";
    case Status::oom: return "oom";
    case Status::unsupported: return "unsupported";
    case Status::failed: return "failed";
    case Status::skipped: break;
    }
    return "skipped";
}

// The difference between sampled rows and the same rows in float64.
struct RowError {
    int64_t rows = 0;     // number of samples; 0: none
    double largest = 0;   // difference
    double reference = 0; // largest magnitude among the same rows
};

// The larger of two errors; a NaN is the worst.
inline double worse(double a, double b) { return a > b || std::isnan(a) ? a : b; }

struct Outcome {
    Status status = Status::ok;
    std::string reason;      // why it is not ok
    size_t wanted_bytes = 0; // of oom: by the allocation that failed
    size_t free_bytes = 0;   // and what there was
};

// The result of one pass.
struct Measured : Outcome {
    Measured() : Outcome{Status::skipped, "", 0, 0} {}

    std::string kernel;
    std::string revision;             // of the contract; empty: without one
    int launches = 0;                 // per sample
    std::vector<double> seconds;      // per launch, every sample in the order measured
    size_t peak_bytes = 0;            // inputs included
    size_t before_backward_bytes = 0; // in use when backward begins; 0 for forward
    size_t scratch_bytes = 0;         // of the kernel that is timed
    RowError error;
    std::string output_crc32;
    std::optional<bool> as_reference; // bytes of sampled rows are the contract's; nothing: not looked at
    double memory_rate = 0;           // of the device at most, bytes a second; 0: not known
    double ratio = 0;                 // the baseline's time over this one's; 0: there is none
};

struct Row {
    Cell cell;
    std::array<Measured, kPassCount> passes;
    std::string baseline; // of the ratios; empty: none

    Measured& of(Pass pass) { return passes[static_cast<size_t>(pass)]; }
    const Measured& of(Pass pass) const { return passes[static_cast<size_t>(pass)]; }

    // ok where a pass ran and none failed; otherwise the status of the first requested pass.
    Status status() const {
        Status found = Status::skipped;
        bool ran = false;
        for (const Measured& measured : passes) {
            if (measured.status == Status::failed) return Status::failed;
            ran = ran || measured.status == Status::ok;
            if (found == Status::skipped) found = measured.status;
        }
        return ran ? Status::ok : found;
    }
    std::string reason() const {
        for (const Measured& measured : passes)
            if (measured.status == status() && !measured.reason.empty()) return measured.reason;
        return "";
    }
    // The maximum of a byte count over all passes.
    size_t most(size_t Measured::*bytes) const {
        size_t most = 0;
        for (const Measured& measured : passes) most = measured.*bytes > most ? measured.*bytes : most;
        return most;
    }
    size_t peak_bytes() const { return most(&Measured::peak_bytes); }
};

// A row with the same status and reason for every requested pass.
inline Row row_without(const Cell& cell, Status status, const std::string& reason) {
    Row row;
    row.cell = cell;
    for (const Pass pass : kPasses)
        if (cell.wants(pass)) {
            row.of(pass).status = status;
            row.of(pass).reason = reason;
        }
    return row;
}

} // namespace hw4::bench
