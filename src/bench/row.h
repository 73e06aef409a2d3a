// What was found out about a cell.
#pragma once

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "src/bench/cell.h"

namespace hw4::bench {

// oom: memory did not suffice. unsupported: there is no such thing here. failed: it went wrong, or the result is.
// skipped: nobody asked for that pass.
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

// How far sampled rows are from those computed in float64.
struct RowError {
    int64_t rows = 0;     // sampled; 0: none
    double largest = 0;   // difference
    double reference = 0; // largest magnitude among the same rows
};

// The larger of two errors; nothing is worse than a NaN.
inline double worse(double a, double b) { return a > b || std::isnan(a) ? a : b; }

struct Outcome {
    Status status = Status::ok;
    std::string reason;      // why it is not ok
    size_t wanted_bytes = 0; // of oom: by the allocation that failed
    size_t free_bytes = 0;   // and what there was
};

// Of one pass.
struct Measured : Outcome {
    Measured() : Outcome{Status::skipped, "", 0, 0} {}

    std::string kernel;
    std::string revision;             // of the contract; empty: of none
    int launches = 0;                 // in a sample
    std::vector<double> seconds;      // of a launch, every sample in the order measured
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
    std::string baseline; // of the ratios; empty: none was asked for

    Measured& of(Pass pass) { return passes[static_cast<size_t>(pass)]; }
    const Measured& of(Pass pass) const { return passes[static_cast<size_t>(pass)]; }

    // ok where a pass ran and none failed; else that of the first pass that was to run.
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
    // The most that a pass has of a number of bytes.
    size_t most(size_t Measured::*bytes) const {
        size_t most = 0;
        for (const Measured& measured : passes) most = measured.*bytes > most ? measured.*bytes : most;
        return most;
    }
    size_t peak_bytes() const { return most(&Measured::peak_bytes); }
};

// The same status and reason for every pass that is wanted.
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
