#include "src/run/pipeline.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "src/base/gate.h"
#include "src/base/worker_threads.h"
#include "src/problem/domain.h"
#include "src/run/first_failure.h"
#include "src/run/part_queue.h"
#include "src/run/staging_memory.h"
#include "src/run/staging_ring.h"

namespace hw4 {
namespace {

constexpr size_t kMostPrepared = size_t{1} << 30; // of the output's pages, so that memory is left for others

constexpr size_t kMostTouched = size_t{2} << 20; // of a buffer: a longer one is for rows that a pipe only announces

// Makes the pages of a buffer that will be needed, by a thread that has nothing to do yet.
void touch(float* buffer, size_t bytes) {
    volatile auto* memory = reinterpret_cast<unsigned char*>(buffer);
    for (size_t at = 0; at < bytes; at += kPageBytes) memory[at] = 0;
}

class Pipeline {
public:
    Pipeline(CaseReader& input, OutputFile& output, const Contract& contract, const StagingPlan& plan,
             Timeline* timeline, OutputChecksum* checksum)
        : input_(input), output_(output), problem_(input.problem()), plan_(plan), timeline_(timeline),
          checksum_(checksum), pen_(timeline, "main"), memory_(plan),
          ring_((problem_.input_rows() + plan.piece_rows - 1) / plan.piece_rows, plan.ring_buffers),
          domain_(input.path(), problem_, contract.domain), failure_([this] { stop(); }) {}

    RunReport run(const EngineOptions& options, const MakeEngine& make_engine) {
        {
            WorkerThreads threads;
            failure_.guard([&] {
                // Nobody works before all have started: the first touch of memory holds up the starting of a thread.
                threads.start(plan_.readers, [this](int reader) {
                    start_.wait();
                    failure_.guard([&] { read_pieces(reader); });
                });
                threads.start(plan_.writers, [this](int writer) {
                    start_.wait();
                    failure_.guard([&] { write_parts(writer); });
                });
                start_.open();
                engine_ = make_engine(request(options));
                waiting_for_engine_ = false;
                feed();
            });
        }
        failure_.rethrow();
        engine_->finish();
        RunReport report{problem_,      engine_->facts(), plan_.readers,
                         plan_.writers, plan_.bytes(),    checksum_ == nullptr ? "" : checksum_->text()};
        pen_.time(Stage::release, 0, [&] { engine_.reset(); });
        return report;
    }

private:
    void stop() {
        start_.open();
        waiting_for_engine_ = false;
        ring_.stop();
        parts_.stop();
        input_.give_up();
    }

    EngineRequest request(const EngineOptions& options) const {
        return {input_.path(),   problem_,           false,         options,   memory_.data(),
                memory_.bytes(), plan_.ring_buffers, plan_.writers, timeline_, pen_};
    }

    // A reader's error goes with its piece, so that of several flaws in a file always the same one is named.
    void read_pieces(int reader) {
        const Pen pen(timeline_, "reader " + std::to_string(reader));
        while (const std::optional<int64_t> piece = ring_.take()) {
            try {
                ring_.filled(*piece, read_piece(*piece, pen));
            } catch (...) {
                ring_.failed(*piece, std::current_exception());
            }
        }
    }

    Findings read_piece(int64_t piece, const Pen& pen) {
        const int buffer = ring_.buffer_of(piece);
        const bool used_before = piece >= plan_.ring_buffers;
        if (used_before) engine_->wait_until_copied(buffer);
        float* data = memory_.ring_buffer(buffer);
        const int64_t first = piece * plan_.piece_rows;
        const int64_t rows = std::min(plan_.piece_rows, problem_.input_rows() - first);
        const size_t bytes = static_cast<size_t>(rows) * problem_.row_bytes();
        pen.time(Stage::read, bytes, [&] { input_.read_rows(first, rows, data); });
        return pen.time(Stage::check, bytes, [&] { return domain_.examine(first, rows, data); });
    }

    void feed() {
        for (int64_t piece = 0; piece < ring_.pieces(); ++piece) {
            domain_.join(ring_.wait_filled(piece));
            feed_piece(piece);
            ring_.release(piece);
        }
        input_.expect_end();
        parts_.close();
    }

    // Cut where chunks end.
    void feed_piece(int64_t piece) {
        const int64_t first = piece * plan_.piece_rows;
        const int64_t end = std::min(first + plan_.piece_rows, problem_.input_rows());
        const int64_t chunk_rows = engine_->chunk_batches() * problem_.batch_input_rows();
        const int buffer = ring_.buffer_of(piece);
        for (int64_t row = first; row < end;) {
            const int64_t chunk = row / chunk_rows;
            const int64_t chunk_end = std::min((chunk + 1) * chunk_rows, problem_.input_rows());
            const int64_t next = std::min(end, chunk_end);
            const float* from = memory_.ring_buffer(buffer) + (row - first) * problem_.dim;
            engine_->copy_in({slot_of(chunk), row - chunk * chunk_rows, next - row, from, buffer});
            if (next == chunk_end) compute(chunk);
            row = next;
        }
    }

    int slot_of(int64_t chunk) const { return static_cast<int>(chunk % engine_->slots()); }

    void compute(int64_t chunk) {
        const int slot = slot_of(chunk);
        const int64_t first_batch = chunk * engine_->chunk_batches();
        const int64_t batches = std::min(engine_->chunk_batches(), problem_.batches - first_batch);
        const int64_t first_row = first_batch * problem_.batch_output_rows();
        parts_.wait_fetched(slot);
        for (int slice = 0; slice < engine_->slices(); ++slice) {
            engine_->compute({slot, batches, slice});
            const RowRange complete = engine_->completes(batches, slice);
            push_parts(slot, complete.first, first_row + complete.first, complete.rows);
        }
    }

    void push_parts(int slot, int64_t slot_row, int64_t file_row, int64_t rows) {
        for (int64_t done = 0; done < rows; done += plan_.part_rows)
            parts_.push({slot, slot_row + done, file_row + done, std::min(plan_.part_rows, rows - done)});
    }

    void write_parts(int writer) {
        const Pen pen(timeline_, "writer " + std::to_string(writer));
        float* staging = memory_.writer_buffer(writer);
        touch(staging, std::min(plan_.part_bytes, kMostTouched));
        // By one of them; the others wait, or zeros might come after what was computed.
        std::call_once(prepared_,
                       [&] { failure_.guard([&] { pen.time(Stage::prepare, 0, [&] { prepare_output(staging); }); }); });
        while (const std::optional<OutputPart> part = parts_.pop()) {
            const float* data = engine_->fetch({part->slot, part->slot_row, part->rows, staging, writer});
            const bool in_slot = data != staging;
            if (!in_slot) parts_.fetched(part->slot);
            write_part(*part, data, pen);
            if (in_slot) parts_.fetched(part->slot);
        }
    }

    // While the engine is made there is nothing to write yet, but the output's pages can be made: writing over pages
    // that are there is half again as fast. Not for a pipe's header alone, which may claim anything.
    void prepare_output(const float* zeros) {
        if (!input_.size_checked()) return;
        output_.reserve(problem_.output_bytes());
        if (!output_.random_access()) return;
        const size_t most = std::min(problem_.output_bytes(), kMostPrepared);
        for (size_t at = 0; at < most && waiting_for_engine_; at += plan_.part_bytes)
            output_.write_at(at, zeros, std::min(plan_.part_bytes, most - at));
    }

    void write_part(const OutputPart& part, const float* data, const Pen& pen) {
        const size_t bytes = static_cast<size_t>(part.rows) * problem_.row_bytes();
        const auto offset = static_cast<uint64_t>(part.file_row) * problem_.row_bytes();
        pen.time(Stage::write, bytes, [&] {
            if (checksum_ != nullptr) checksum_->add(offset, data, bytes);
            if (output_.random_access())
                output_.write_at(offset, data, bytes);
            else
                output_.write(data, bytes);
        });
    }

    CaseReader& input_;
    OutputFile& output_;
    const Problem problem_;
    const StagingPlan plan_;
    Timeline* const timeline_;
    OutputChecksum* const checksum_;
    const Pen pen_; // of the calling thread
    StagingMemory memory_;
    StagingRing ring_;
    Gate start_;
    PartQueue parts_;
    DomainCheck domain_;
    FirstFailure failure_;
    std::atomic<bool> waiting_for_engine_{true};
    std::once_flag prepared_;
    // Made by the calling thread. Others see it once a buffer was released or a part was pushed, both of which come
    // after.
    std::unique_ptr<Engine> engine_;
};

} // namespace

StagingLimits staging_limits(int processors) {
    StagingLimits limits;
    limits.readers = std::clamp(processors / 2, 2, limits.readers);
    limits.writers = std::clamp(processors / 4, 2, limits.writers);
    return limits;
}

RunReport run_pipeline(CaseReader& input, OutputFile& output, const EngineOptions& options, const StagingLimits& limits,
                       const MakeEngine& make_engine, Timeline* timeline, OutputChecksum* checksum) {
    const StagingPlan plan = plan_staging(input.problem(), input.random_access(), output.random_access(), limits);
    return Pipeline(input, output, *options.contract, plan, timeline, checksum).run(options, make_engine);
}

} // namespace hw4
