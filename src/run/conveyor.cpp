#include "src/run/conveyor.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/base/parallel.h"
#include "src/io/file_rows.h"
#include "src/run/first_failure.h"
#include "src/run/part_queue.h"
#include "src/run/staging_ring.h"

namespace hw4 {
namespace {

// The threads' view of a case.
struct PendingCase {
    PendingCase(RunCase& run_case, int its_number)
        : run(run_case), number(its_number), failed(run.failure != nullptr) {}

    RunCase& run;
    const int number;
    std::optional<CasePart> part; // mostly the whole problem
    Problem problem;              // the part's
    StagingPlan plan{};
    std::optional<DomainCheck> domain; // joined by the thread that feeds the engine
    Engine* engine = nullptr;          // set before the first part is pushed
    int first_slot = 0;                // in the engine
    std::atomic<bool> failed;
    bool over = false; // guarded by the line's lock
};

// The cases of a run between opening and settling, by number. Cases that are opened ahead wait here.
class CaseLine : private SharedState {
public:
    explicit CaseLine(int most) : most_(most) {}

    // The opening thread waits here until another case may be open. False when the run stops.
    bool wait_for_room() {
        const auto locked = wait_or_stop([this] { return cases_.size() < static_cast<size_t>(most_); });
        return !stopped_;
    }
    void add(std::unique_ptr<PendingCase> added_case) {
        change([&] { cases_.push_back(std::move(added_case)); });
    }
    // No more cases follow.
    void close() {
        change([this] { closed_ = true; });
    }

    // The case of that number, once it was added, unless it is over; null after the last. Throws Stopped.
    PendingCase* wait(int number) {
        const auto locked = wait_for([&] { return closed_ || number < added(); });
        return number < added() ? cases_[static_cast<size_t>(number - first_)].get() : nullptr;
    }

    // Keeps the first failure of a case.
    void fail(PendingCase& failed, std::exception_ptr error) {
        const auto locked = lock();
        if (!failed.run.failure) failed.run.failure = std::move(error);
        failed.failed = true;
    }

    // Ends the case. Calls `settle` for every case that is over and that only such cases precede, in order, one at a
    // time; the case is gone after it. Once `settle` has thrown, no more cases are settled.
    template <class Settle>
    void end(PendingCase& ended, const Settle& settle) {
        change([&] { ended.over = true; });
        const std::lock_guard<std::mutex> one_at_a_time(settling_);
        while (PendingCase* const first = settles_ ? first_if_over() : nullptr) {
            settles_ = false;
            settle(*first);
            settles_ = true;
            change([this] {
                cases_.pop_front();
                ++first_;
            });
        }
    }

    // Wakes all waiting threads. Calls `wake` for every case that is not over; others may already be destroyed.
    template <class Wake>
    void stop(const Wake& wake) {
        change([&] {
            stopped_ = true;
            for (const auto& waiting : cases_)
                if (!waiting->over) wake(*waiting);
        });
    }

private:
    int added() const { return first_ + static_cast<int>(cases_.size()); }
    PendingCase* first_if_over() {
        const auto locked = lock();
        return cases_.empty() || !cases_.front()->over ? nullptr : cases_.front().get();
    }

    const int most_;
    std::mutex settling_;
    bool settles_ = true;                            // false after it has thrown
    std::deque<std::unique_ptr<PendingCase>> cases_; // from number first_ on
    int first_ = 0;
    bool closed_ = false;
};

constexpr size_t kMostPrepared = size_t{1} << 30; // of the output's pages, which leaves memory for others
constexpr size_t kMostTouched = size_t{2} << 20;  // per buffer: longer ones are for rows that a pipe's header claims
constexpr int kMostOpen = 8;                      // open cases: enough small ones to fill the ring, but few descriptors

// Touches the pages of a buffer in advance, in a thread that is still idle.
void touch(volatile unsigned char* buffer, size_t bytes) {
    for (size_t at = 0; at < bytes; at += kPageBytes) buffer[at] = 0;
}

// Whether the error means a broken engine, which cannot compute any more cases.
bool breaks_the_run(const std::exception_ptr& error) {
    try {
        std::rethrow_exception(error);
    } catch (const Error& known) {
        return known.code() == ExitCode::internal;
    } catch (const std::bad_alloc&) {
        return false;
    } catch (...) {
        return true;
    }
}

class Conveyor {
public:
    Conveyor(RunCases& cases, ConveyorSetup setup)
        : cases_(cases), setup_(std::move(setup)), recorder_(setup_.timeline, "main"), memory_(setup_.plan),
          line_(kMostOpen), ring_(setup_.plan.ring_buffers), failure_([this] { stop(); }),
          copied_by_(static_cast<size_t>(setup_.plan.ring_buffers)) {}

    void run() {
        {
            WorkerThreads threads;
            failure_.guard([&] {
                if (!setup_.many) open_cases({});
                // Threads start their work together: the first touch of memory delays the start of further threads.
                threads.start(setup_.plan.readers, [this](int reader) {
                    start_.wait();
                    failure_.guard([&] { read_pieces(reader); });
                });
                threads.start(setup_.plan.writers, [this](int writer) {
                    start_.wait();
                    failure_.guard([&] { write_parts(writer); });
                });
                if (setup_.many)
                    threads.start(1, [this](int) {
                        start_.wait();
                        failure_.guard([&] { open_cases({setup_.timeline, "opener"}); });
                    });
                start_.open();
                feed_cases();
            });
        }
        failure_.rethrow();
        for (const auto& [device, engine] : engines_) engine->finish();
        recorder_.time(Stage::release, 0, [&] { engines_.clear(); });
    }

private:
    void stop() {
        start_.open();
        waiting_for_engine_ = false;
        ring_.stop();
        parts_.stop();
        line_.stop([](const PendingCase& waiting) {
            if (waiting.run.input != nullptr) waiting.run.input->give_up();
        });
        cases_.give_up();
    }

    // Does something for a case. An exception is the case's failure; it ends the run only where no other case could be
    // computed either.
    template <class Work>
    void guard(PendingCase& for_case, const Work& work) {
        try {
            work();
        } catch (const Stopped&) {
            throw;
        } catch (...) {
            line_.fail(for_case, std::current_exception());
            ring_.abandon(for_case.number);
            for_case.run.input->give_up();
            if (breaks_the_run(std::current_exception())) throw;
        }
    }

    // ---- Opening

    void open_cases(const SpanRecorder& recorder) {
        for (int number = 0; line_.wait_for_room(); ++number) {
            RunCase* const opened = cases_.next();
            if (opened == nullptr) break;
            add(std::make_unique<PendingCase>(*opened, number), recorder);
        }
        line_.close();
        ring_.close();
    }

    void add(std::unique_ptr<PendingCase> added, const SpanRecorder& recorder) {
        PiecesOfCase pieces = {0, 1, false};
        if (!added->failed) {
            const CaseReader& input = *added->run.input;
            added->part = added->run.part == nullptr ? CasePart(input.problem()) : *added->run.part;
            added->problem = added->part->problem;
            added->plan = plan_staging(added->run, setup_.limits);
            added->domain.emplace(input.path(), input.problem(), setup_.options.contract->domain);
            const int64_t rows = added->plan.piece_rows;
            pieces = {(added->problem.input_rows() + rows - 1) / rows, added->plan.ring_buffers,
                      !input.random_access()};
        }
        ring_.add(pieces);
        parts_.hold(added->number);
        PendingCase& here = *added;
        line_.add(std::move(added));
        // A writer reserves the first output, because it is idle before the engine exists.
        if (here.number > 0 && !here.failed)
            guard(here, [&] { recorder.time(Stage::prepare, 0, [&] { reserve_output(here); }); });
        end_if_done(here, end_of_case(here.number));
    }

    // Leaves out pipes, because a header may claim any number, and parts, because other ranks write too.
    static bool reserve_output(const PendingCase& of) {
        const bool size_known = of.run.input->size_checked() && of.run.part == nullptr;
        if (size_known) of.run.output->reserve(of.problem.file_bytes(of.problem.operation->outputs));
        if (size_known && of.run.lse != nullptr) of.run.lse->reserve(lse_bytes(of.problem.output_rows()));
        return size_known;
    }

    static size_t lse_bytes(int64_t rows) { return static_cast<size_t>(rows) * sizeof(float); }

    // ---- Reading

    // A reader's error stays with its piece, so that always the same one of several bad values in a file is named.
    void read_pieces(int reader) {
        const SpanRecorder recorder(setup_.timeline, "reader " + std::to_string(reader));
        std::vector<float> widened;
        while (const std::optional<StagedPiece> staged = ring_.take()) {
            try {
                ring_.filled(*staged, read_piece(*staged, widened, recorder));
            } catch (...) {
                ring_.failed(*staged, std::current_exception());
            }
        }
    }

    Findings read_piece(const StagedPiece& staged, std::vector<float>& widened, const SpanRecorder& recorder) {
        const int buffer = ring_.buffer_of(staged);
        Engine* const used_before = copied_by_[static_cast<size_t>(buffer)];
        if (used_before != nullptr) used_before->wait_until_copied(buffer);
        const PendingCase& from = *line_.wait(staged.of);
        unsigned char* const data = memory_.ring_buffer(buffer, from.plan.piece_bytes);
        const int64_t first = staged.piece * from.plan.piece_rows;
        const int64_t rows = std::min(from.plan.piece_rows, from.problem.input_rows() - first);
        const size_t bytes = static_cast<size_t>(rows) * from.problem.stored_row_bytes();
        recorder.time(Stage::read, bytes, [&] { read_rows(from, first, rows, data); });
        return recorder.time(Stage::check, bytes, [&] {
            return from.domain->examine(*from.part, first, rows, as_floats(from.problem, rows, data, widened));
        });
    }

    static void read_rows(const PendingCase& from, int64_t first, int64_t rows, unsigned char* data) {
        const size_t row_bytes = from.problem.stored_row_bytes();
        from.part->each_stretch(
            from.problem.operation->inputs, first, rows, [&](int64_t own, int64_t at, int64_t count) {
                from.run.input->read_stored_rows(at, count, data + static_cast<size_t>(own - first) * row_bytes);
            });
    }

    // Returns the rows in place, or converts them into the buffer for floats.
    static const float* as_floats(const Problem& problem, int64_t rows, const unsigned char* data,
                                  std::vector<float>& room) {
        if (problem.element == Element::float32) return reinterpret_cast<const float*>(data);
        const size_t count = problem.floats_in(rows);
        if (room.size() < count) room.resize(count);
        widen(problem.element, data, count, room.data());
        return room.data();
    }

    // ---- Feeding the engine

    void feed_cases() {
        PendingCase* fed = nullptr;
        for (int number = 0; (fed = line_.wait(number)) != nullptr; ++number) {
            if (!fed->failed) guard(*fed, [&] { begin(*fed); });
            waiting_for_engine_ = false;
            while (const std::optional<FilledPiece> filled = ring_.wait_filled(number)) {
                if (!fed->failed) guard(*fed, [&] { feed(*fed, *filled); });
                ring_.release(filled->staged);
            }
            if (!fed->failed) guard(*fed, [&] { fed->run.input->expect_end(); });
            if (!fed->failed) fed->run.seen = fed->domain->left();
            parts_.push(end_of_case(number));
        }
        parts_.close();
    }

    void begin(PendingCase& fed) {
        const EngineRequest request = request_for(fed);
        const EngineMaker chosen = setup_.choose_engine(request);
        const auto all_fetched = [this] { parts_.wait_all_fetched(); };
        const auto made = engines_.find(chosen.device);
        // Slots are counted for one engine at a time.
        if (made == engines_.end() || made->second.get() != fed_engine_) all_fetched();
        if (made == engines_.end())
            fed_engine_ = engines_.emplace(chosen.device, chosen.make(request)).first->second.get();
        else {
            fed_engine_ = made->second.get();
            fed_engine_->begin(request.input, request.problem, all_fetched);
        }
        fed.engine = fed_engine_;
        fed.run.engine = fed.engine->facts();
        fed.first_slot = next_slot_ % fed.engine->slots();
        case_in_slot_.resize(static_cast<size_t>(fed.engine->slots()), -1);
    }

    EngineRequest request_for(const PendingCase& fed) const {
        return {fed.run.input->path(),
                fed.problem,
                setup_.many,
                setup_.options,
                memory_.data(),
                memory_.bytes(),
                setup_.plan.ring_buffers,
                setup_.plan.writers,
                setup_.timeline,
                recorder_};
    }

    // Feeds rows, cut at the ends of chunks.
    void feed(PendingCase& fed, const FilledPiece& filled) {
        if (filled.error) std::rethrow_exception(filled.error);
        fed.domain->join(filled.findings);
        const int64_t first = filled.staged.piece * fed.plan.piece_rows;
        const int64_t end = std::min(first + fed.plan.piece_rows, fed.problem.input_rows());
        const int64_t chunk_rows = fed.engine->chunk_batches() * fed.problem.batch_input_rows();
        const int buffer = ring_.buffer_of(filled.staged);
        const unsigned char* const data = memory_.ring_buffer(buffer, fed.plan.piece_bytes);
        const size_t row_bytes = fed.problem.stored_row_bytes();
        copied_by_[static_cast<size_t>(buffer)] = fed.engine;
        for (int64_t row = first; row < end;) {
            const int64_t chunk = row / chunk_rows; // NOLINT(clang-analyzer-core.DivideZero): a batch has rows
            const int64_t chunk_end = std::min((chunk + 1) * chunk_rows, fed.problem.input_rows());
            const int64_t next = std::min(end, chunk_end);
            const int slot = slot_of(fed, chunk);
            wait_for_another_case(fed, slot);
            fed.engine->copy_in({slot, row - chunk * chunk_rows, next - row,
                                 data + static_cast<size_t>(row - first) * row_bytes, buffer});
            if (next == chunk_end) compute(fed, chunk);
            row = next;
        }
    }

    static int slot_of(const PendingCase& fed, int64_t chunk) {
        return static_cast<int>((fed.first_slot + chunk) % fed.engine->slots());
    }

    // Rows of a case may overwrite output of the case before.
    void wait_for_another_case(const PendingCase& fed, int slot) {
        int& in_slot = case_in_slot_[static_cast<size_t>(slot)];
        if (in_slot != fed.number) parts_.wait_fetched(slot);
        in_slot = fed.number;
    }

    void compute(PendingCase& fed, int64_t chunk) {
        Engine& engine = *fed.engine;
        const int slot = slot_of(fed, chunk);
        const int64_t first_batch = chunk * engine.chunk_batches();
        const int64_t batches = std::min(engine.chunk_batches(), fed.problem.batches - first_batch);
        const int64_t first_row = first_batch * fed.problem.batch_output_rows();
        const int32_t* const of_case = fed.run.input->lengths();
        const int32_t* const lengths = of_case == nullptr ? nullptr : of_case + fed.part->first_batch + first_batch;
        parts_.wait_fetched(slot);
        next_slot_ = (slot + 1) % engine.slots();
        for (int slice = 0; slice < engine.slices(); ++slice) {
            engine.compute({slot, batches, slice, lengths});
            const RowRange complete = engine.completes(batches, slice);
            push_parts(fed, {slot, complete.first, first_row + complete.first, complete.rows, fed.number,
                             !fed.run.random_access()});
        }
    }

    void push_parts(const PendingCase& fed, const OutputPart& rows) {
        OutputPart part = rows;
        for (int64_t done = 0; done < rows.rows; done += fed.plan.part_rows) {
            part.slot_row = rows.slot_row + done;
            part.file_row = rows.file_row + done;
            part.rows = std::min(fed.plan.part_rows, rows.rows - done);
            parts_.push(part);
        }
    }

    // ---- Writing

    void write_parts(int writer) {
        const SpanRecorder recorder(setup_.timeline, "writer " + std::to_string(writer));
        const size_t usual_bytes = setup_.plan.part_bytes;
        unsigned char* const staging = memory_.writer_buffer(writer, usual_bytes);
        touch(staging, std::min(usual_bytes, kMostTouched));
        // One writer does this; the others wait, because zeros must not follow computed rows.
        std::call_once(prepared_, [&] { failure_.guard([&] { prepare_first_output(staging, recorder); }); });
        while (const std::optional<OutputPart> part = parts_.pop()) {
            PendingCase& of = *line_.wait(part->of);
            if (part->rows > 0) write_part(of, *part, writer, recorder);
            end_if_done(of, *part);
        }
    }

    void end_if_done(PendingCase& of, const OutputPart& part) {
        if (parts_.done(part)) line_.end(of, [this](PendingCase& over) { cases_.settled(over.run); });
    }

    // While the engine is made there is nothing to write, but the output's pages can be created: writing over existing
    // pages is half again as fast.
    void prepare_first_output(const unsigned char* zeros, const SpanRecorder& recorder) {
        PendingCase* const first = line_.wait(0);
        if (first == nullptr || first->failed) return;
        guard(*first, [&] { recorder.time(Stage::prepare, 0, [&] { prepare_output(*first, zeros); }); });
    }

    void prepare_output(const PendingCase& of, const unsigned char* zeros) {
        OutputFile& output = *of.run.output;
        if (!reserve_output(of) || !output.random_access()) return;
        const size_t most = std::min(of.problem.file_bytes(of.problem.operation->outputs), kMostPrepared);
        const size_t step = setup_.plan.part_bytes;
        for (size_t at = 0; at < most && waiting_for_engine_; at += step)
            output.write_at(at, zeros, std::min(step, most - at));
    }

    void write_part(PendingCase& of, const OutputPart& part, int writer, const SpanRecorder& recorder) {
        bool in_slot = true; // whether its rows are in the slot
        if (!of.failed)
            guard(of, [&] {
                unsigned char* const buffer = memory_.writer_buffer(writer, of.plan.part_bytes);
                auto* const statistics = of.run.lse == nullptr ? nullptr : reinterpret_cast<RowStatistics*>(buffer);
                unsigned char* const staging = of.run.lse == nullptr ? buffer : behind(statistics, part);
                const void* const data =
                    of.engine->fetch({part.slot, part.slot_row, part.rows, staging, writer, statistics});
                in_slot = data != staging;
                if (!in_slot) parts_.fetched(part.slot);
                refuse_beyond(of, part, data, recorder);
                write_rows(of, part, data, recorder);
                if (statistics != nullptr) write_logsumexps(of, part, statistics, recorder);
            });
        if (in_slot) parts_.fetched(part.slot);
    }

    // The rows' place in a writer's buffer, behind their statistics.
    static unsigned char* behind(RowStatistics* statistics, const OutputPart& part) {
        return reinterpret_cast<unsigned char*>(statistics + part.rows);
    }

    // Throws Error (bad_data) where an output is infinite.
    void refuse_beyond(const PendingCase& of, const OutputPart& part, const void* data,
                       const SpanRecorder& recorder) const {
        const Contract& contract = *setup_.options.contract;
        if (!outputs_may_overflow(contract, of.problem)) return;
        recorder.time(Stage::write, 0, [&] {
            refuse_infinite(contract, of.problem, of.run.input->path(), data, of.problem.floats_in(part.rows));
        });
    }

    // Calls use(first, at, rows) for each stretch of the part's rows that is contiguous in the file.
    template <class Use>
    static void each_stretch(const PendingCase& of, const OutputPart& part, const Use& use) {
        of.part->each_stretch(of.problem.operation->outputs, part.file_row, part.rows, use);
    }

    static void write_rows(const PendingCase& of, const OutputPart& part, const void* data,
                           const SpanRecorder& recorder) {
        const size_t row_bytes = of.problem.stored_row_bytes();
        const auto* const stored = static_cast<const unsigned char*>(data);
        OutputChecksums* const checksums = of.run.checksums;
        recorder.time(Stage::write, static_cast<size_t>(part.rows) * row_bytes, [&] {
            each_stretch(of, part, [&](int64_t first, int64_t at, int64_t rows) {
                each_in_file(of.part->whole, of.part->whole.operation->outputs, at, rows,
                             stored + static_cast<size_t>(first - part.file_row) * row_bytes,
                             [&](uint64_t offset, const void* numbers, size_t bytes) {
                                 write_to(*of.run.output, checksums == nullptr ? nullptr : &checksums->output, offset,
                                          numbers, bytes);
                             });
            });
        });
    }

    void write_logsumexps(const PendingCase& of, const OutputPart& part, const RowStatistics* statistics,
                          const SpanRecorder& recorder) const {
        const size_t bytes = lse_bytes(part.rows);
        OutputChecksums* const checksums = of.run.checksums;
        recorder.time(Stage::write, bytes, [&] {
            std::vector<float> values(static_cast<size_t>(part.rows));
            logsumexps(*setup_.options.contract, of.problem, statistics, part.rows, values.data());
            each_stretch(of, part, [&](int64_t first, int64_t at, int64_t rows) {
                write_to(*of.run.lse, checksums == nullptr ? nullptr : &checksums->lse, lse_bytes(at),
                         &values[static_cast<size_t>(first - part.file_row)], lse_bytes(rows));
            });
        });
    }

    static void write_to(OutputFile& file, OutputChecksum* checksum, uint64_t offset, const void* data, size_t bytes) {
        if (checksum != nullptr) checksum->add(offset, data, bytes);
        if (file.random_access())
            file.write_at(offset, data, bytes);
        else
            file.write(data, bytes);
    }

    RunCases& cases_;
    const ConveyorSetup setup_;
    const SpanRecorder recorder_; // for the calling thread
    StagingMemory memory_;
    CaseLine line_;
    StagingRing ring_;
    PartQueue parts_;
    Gate start_;
    FirstFailure failure_;
    std::atomic<bool> waiting_for_engine_{true};
    std::once_flag prepared_;
    // Only the thread that feeds the engine changes these. Others read them after a buffer was released or a part was
    // pushed, both of which happen later.
    std::map<std::string, std::unique_ptr<Engine>> engines_; // by device
    std::vector<Engine*> copied_by_;                         // by staging buffer: the engine that last got its rows
    Engine* fed_engine_ = nullptr;
    int next_slot_ = 0;
    std::vector<int> case_in_slot_; // the number of the last case in it
};

} // namespace

void run_conveyor(RunCases& cases, ConveyorSetup setup) { Conveyor(cases, std::move(setup)).run(); }

} // namespace hw4
