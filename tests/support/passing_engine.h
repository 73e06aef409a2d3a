// An engine for tests of how rows reach it and leave it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/run/engine.h"

namespace hw4 {

// Faults that a test injects into an engine, by the number of the call; -1: none.
struct Faults {
    int begin = -1;
    int copy_in = -1;
    int wait = -1;
    int compute = -1;
    int fetch = -1;
    std::function<void()> before_compute = [] {};
    ExitCode code = ExitCode::internal;
    bool case_fails = false; // a case fails, and its output is not fetched
};

// How the engine cuts a case; no queries: a whole chunk at once.
struct Cut {
    int slots;
    int64_t batches;
    int64_t queries = 0;
};

// The output of a case with the short header by a passing engine: its queries.
inline std::string queries_of(const std::string& file) {
    std::array<int32_t, 3> sizes{};
    std::memcpy(sizes.data(), file.data(), sizeof sizes);
    const Problem problem{sizes[0], sizes[1], sizes[2]};
    std::string queries;
    for (int64_t b = 0; b < problem.batches; ++b)
        queries += file.substr(12 + static_cast<size_t>(b) * problem.batch_input_bytes(), problem.batch_output_bytes());
    return queries;
}

// Where an engine leaves its output: in the slot, in the staging buffer, or alternately.
enum class Leaves { in_slot, in_staging, by_turns };

// Passes Q through as the output, from slots in host memory: misplaced data shows. Like a GPU it copies rows late, when
// they are waited for, so that a staging buffer that is refilled too early shows too; and each slot has one memory for
// the input and output of every case. It checks that a slot is computed only after all its output was fetched, and that
// rows of another case come only after that.
class PassingEngine : public Engine {
public:
    PassingEngine(const EngineRequest& request, const Cut& cut, const Faults& faults, Leaves leaves)
        : cut_(cut), faults_(faults), leaves_(leaves), slots_(static_cast<size_t>(cut.slots)) {
        plan(request.problem, [] {});
    }

    void begin(const std::string&, const Problem& problem, const std::function<void()>& all_fetched) override {
        fail_if(faults_.begin, begins_++, "begin");
        plan(problem, all_fetched);
    }
    EngineFacts facts() override { return {}; }

    int slots() const override { return cut_.slots; }
    int64_t chunk_batches() const override { return cut_.batches; }
    int slices() const override { return static_cast<int>((problem_.queries + queries_ - 1) / queries_); }
    RowRange completes(int64_t batches, int slice) const override {
        const int64_t first = slice * queries_;
        return {first, (batches - 1) * problem_.queries + std::min(queries_, problem_.queries - first)};
    }

    void copy_in(const RowsIn& rows) override {
        fail_if(faults_.copy_in, copies_++, "copy_in");
        Slot& to = slot(rows.slot);
        if (to.computed_for != cases_) expect_fetched(rows.slot);
        const std::lock_guard<std::mutex> lock(mutex_);
        const size_t row_bytes = problem_.stored_row_bytes();
        to_copy_.push_back({rows, to.memory.data() + static_cast<size_t>(rows.first_row) * row_bytes, row_bytes});
    }
    void wait_until_copied(int buffer) override {
        fail_if(faults_.wait, waits_++, "wait");
        copy_those([&](const RowsIn& rows) { return rows.buffer == buffer; });
    }

    void compute(const Work& work) override {
        faults_.before_compute();
        fail_if(faults_.compute, computes_++, "compute");
        copy_those([&](const RowsIn& rows) { return rows.slot == work.slot; });
        Slot& computed = slot(work.slot);
        const int64_t first_query = work.slice * queries_;
        const int64_t queries = std::min(queries_, problem_.queries - first_query);
        if (work.slice == 0) {
            expect_fetched(work.slot);
            computed.computed_for = cases_;
            computed.row_bytes = problem_.stored_row_bytes();
            computed.output = static_cast<size_t>(cut_.batches * problem_.batch_input_rows()) * computed.row_bytes;
        }
        computed.unfetched_rows += work.batches * queries;
        for (int64_t b = 0; b < work.batches; ++b)
            std::memcpy(computed.output_row(b * problem_.queries + first_query),
                        computed.row(b * problem_.batch_input_rows() + first_query),
                        static_cast<size_t>(queries) * computed.row_bytes);
    }

    const void* fetch(const RowsOut& rows) override {
        fail_if(faults_.fetch, fetches_++, "fetch");
        Slot& from = slot(rows.slot);
        const unsigned char* const data = from.output_row(rows.first_row);
        const bool in_slot = leaves_ == Leaves::in_slot || (leaves_ == Leaves::by_turns && rows.slot % 2 == 1);
        if (!in_slot) std::memcpy(rows.staging, data, static_cast<size_t>(rows.rows) * from.row_bytes);
        for (int64_t row = 0; row < rows.rows && rows.statistics != nullptr; ++row)
            rows.statistics[row] = statistics_of(from.output_row(rows.first_row + row), from.row_bytes);
        from.unfetched_rows -= rows.rows;
        return in_slot ? data : static_cast<const unsigned char*>(rows.staging);
    }

    void finish() override {}

    // A row's statistics, derived from the row's first bytes: in the two output files they must match.
    static RowStatistics statistics_of(const void* row, size_t row_bytes) {
        float first = 0;
        std::memcpy(&first, row, std::min(sizeof first, row_bytes));
        return {first, 0, 1};
    }

private:
    struct Slot {
        std::vector<unsigned char> memory; // for the chunk's input, then its output
        int computed_for = 0;              // the number of the case
        size_t row_bytes = 0;
        size_t output = 0;
        std::atomic<int64_t> unfetched_rows{0};

        unsigned char* row(int64_t index) { return memory.data() + static_cast<size_t>(index) * row_bytes; }
        unsigned char* output_row(int64_t index) { return row(index) + output; }
    };
    struct Copy {
        RowsIn rows;
        unsigned char* to;
        size_t row_bytes;
    };

    void fail_if(int at, int call, const char* what) const {
        if (call == at) throw Error(faults_.code, what);
    }
    Slot& slot(int index) { return slots_[static_cast<size_t>(index)]; }

    void expect_fetched(int index) {
        if (!faults_.case_fails) {
            EXPECT_EQ(slot(index).unfetched_rows, 0) << "slot " << index;
        }
        slot(index).unfetched_rows = 0;
    }

    void plan(const Problem& problem, const std::function<void()>& all_fetched) {
        const int64_t batch_rows = problem.batch_input_rows() + problem.batch_output_rows();
        const size_t bytes = static_cast<size_t>(cut_.batches * batch_rows) * problem.stored_row_bytes();
        if (bytes > slots_.front().memory.size()) {
            all_fetched();
            copy_those([](const RowsIn&) { return true; });
            for (int i = 0; i < cut_.slots; ++i) {
                expect_fetched(i);
                slot(i).memory = std::vector<unsigned char>(bytes);
            }
        }
        problem_ = problem;
        queries_ = cut_.queries > 0 ? cut_.queries : problem.queries;
        ++cases_;
    }

    template <class Chosen>
    void copy_those(const Chosen& chosen) {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto rest = std::stable_partition(to_copy_.begin(), to_copy_.end(),
                                                [&](const Copy& copy) { return chosen(copy.rows); });
        for (auto copy = to_copy_.begin(); copy != rest; ++copy)
            std::memcpy(copy->to, copy->rows.from, static_cast<size_t>(copy->rows.rows) * copy->row_bytes);
        to_copy_.erase(to_copy_.begin(), rest);
    }

    const Cut cut_;
    const Faults faults_;
    const Leaves leaves_;
    std::vector<Slot> slots_;
    Problem problem_;
    int64_t queries_ = 0;
    int cases_ = 0; // started so far
    std::mutex mutex_;
    std::vector<Copy> to_copy_;
    std::atomic<int> begins_{0}, copies_{0}, waits_{0}, computes_{0}, fetches_{0};
};

} // namespace hw4
