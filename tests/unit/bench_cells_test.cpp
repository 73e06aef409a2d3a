// Cells of hw4 bench: their options, those measured on the CPU, and the checks of their results.
#include <functional>
#include <new>

#include "src/base/error.h"
#include "src/bench/exact_rows.h"
#include "src/bench/measure.h"
#include "src/commands/bench_collectives.h"
#include "src/commands/bench_options.h"
#include "src/cpu/engine.h"
#include "src/cpu/kernels.h"
#include "tests/support/attention_case.h"
#include "tests/support/compute_batches.h"
#include "tests/support/temporary_folder.h"

namespace hw4::bench {
namespace {

Cell quick_cell(const std::string& impl, bool causal = false) {
    Cell cell;
    cell.impl = impl;
    cell.batch_size = 2;
    cell.seq_len = 70;
    cell.num_heads = 3;
    cell.emb_dim = 3 * 20;
    cell.causal = causal;
    cell.rules.warmup = 0;
    cell.rules.repeats = 2;
    return cell;
}

Row measured(const Cell& cell) {
    KeptData kept;
    return measure(cell, *cpu_workbench(2), kept);
}

TEST(BenchOnCpu, EveryPassIsRight) {
    for (const bool causal : {false, true})
        for (const char* impl : {"naive", "f32"}) {
            const Row row = measured(quick_cell(impl, causal));
            for (const Pass pass : kPasses) {
                const Measured& one = row.of(pass);
                EXPECT_EQ(one.status, Status::ok) << impl << " " << name_of(pass) << ": " << one.reason;
                EXPECT_EQ(one.seconds.size(), 2);
                EXPECT_EQ(one.error.rows, pass == Pass::forward ? 32 : 96);
                EXPECT_LT(one.error.largest, 1e-5) << impl << " " << name_of(pass);
                EXPECT_GT(one.error.reference, 0.1);
                EXPECT_EQ(one.as_reference.value_or(false), impl == std::string("f32"));
            }
            EXPECT_EQ(row.of(Pass::backward).output_crc32, row.of(Pass::forward_backward).output_crc32);
        }
}

// Calls fail() before it prepares backward.
class FailingWorkbench : public Workbench {
public:
    explicit FailingWorkbench(std::function<void()> fail) : fail_(std::move(fail)) {}

    std::unique_ptr<Subject> prepare(const Cell& cell, Pass pass, const CaseData& data, MemoryCount& memory) override {
        if (pass == Pass::backward) fail_();
        return cpu_->prepare(cell, pass, data, memory);
    }
    double sample(Subject& subject, int launches) override { return cpu_->sample(subject, launches); }
    void wait() override { cpu_->wait(); }
    void flush_caches() override { cpu_->flush_caches(); }
    size_t free_bytes() override { return cpu_->free_bytes(); }
    std::string machine_json() override { return cpu_->machine_json(); }

private:
    std::unique_ptr<Workbench> cpu_ = cpu_workbench(1);
    std::function<void()> fail_;
};

TEST(BenchOnCpu, APassThatFailsIsToldAndThoseAfterItAreMeasured) {
    const std::function<void()> failures[] = {[] { throw Error(ExitCode::internal, "broken"); },
                                              [] { throw std::runtime_error("broken"); }};
    for (const auto& failure : failures) {
        FailingWorkbench workbench(failure);
        KeptData kept;
        const Row row = measure(quick_cell("f32"), workbench, kept);
        EXPECT_EQ(row.status(), Status::failed);
        EXPECT_EQ(row.reason(), "broken");
        EXPECT_EQ(row.of(Pass::forward).status, Status::ok);
        EXPECT_EQ(row.of(Pass::forward_backward).status, Status::ok);
    }
}

// Checks how much memory is free while other operands may still exist.
class LookingWorkbench : public FailingWorkbench {
public:
    explicit LookingWorkbench(const KeptData& kept) : FailingWorkbench([] {}), kept_(kept) {}

    size_t free_bytes() override {
        kept_bytes.push_back(kept_.bytes());
        return FailingWorkbench::free_bytes();
    }

    std::vector<size_t> kept_bytes;

private:
    const KeptData& kept_;
};

TEST(BenchOnCpu, OperandsOfTheCellBeforeAreGoneBeforeFreeMemoryIsCounted) {
    KeptData kept;
    LookingWorkbench workbench(kept);
    Cell cell = quick_cell("f32");
    cell.passes[1] = cell.passes[2] = false;
    measure(cell, workbench, kept);
    EXPECT_GT(kept.bytes(), 0u);
    cell.seq_len = 50;
    measure(cell, workbench, kept);
    EXPECT_EQ(workbench.kept_bytes, (std::vector<size_t>{0, 0}));
}

// ---- Whether a result is right

CaseData data_of(const Cell& cell, const Operation& operation) {
    const Problem problem = problem_of(cell, operation);
    CaseData data{problem, UntouchedVector<float>(problem.floats_in(problem.input_rows()))};
    fill_case_values({problem, CaseKind::uniform, 3}, 0, data.values.size(), data.values.data());
    return data;
}

TEST(ExactRows, SeeAWrongRowAndNaN) {
    Cell cell = quick_cell("f32");
    cell.batch_size = 1;
    cell.num_heads = 1;
    cell.seq_len = 32; // every row is checked
    cell.emb_dim = 8;
    for (const Operation* operation : kOperations) {
        const CaseData data = data_of(cell, *operation);
        std::vector<float> output(data.problem.floats_in(data.problem.output_rows()));
        compute_by_reference(kF32, data.problem, data.values.data(), output.data());
        EXPECT_LT(error_of_rows(data, output.data()).largest, 1e-4);
        EXPECT_EQ(has_reference_bytes(kF32, data, output.data()), true);
        for (const size_t place : {size_t{0}, output.size() / 2, output.size() - 1}) {
            std::vector<float> wrong = output;
            wrong[place] += 1.0f;
            EXPECT_NEAR(error_of_rows(data, wrong.data()).largest, 1, 1e-4) << operation->name << " " << place;
            EXPECT_EQ(has_reference_bytes(kF32, data, wrong.data()), false);
            wrong[place] = NAN;
            EXPECT_TRUE(std::isnan(error_of_rows(data, wrong.data()).largest)) << operation->name << " " << place;
        }
    }
}

// A kernel that stores such elements gives the reference's numbers, rounded. Small cases are checked in full, large
// ones in some rows.
TEST(ExactRows, OfNarrowElementsAreTheReferencesRounded) {
    for (const int64_t tokens : {32, 600})
        for (const Element element : {Element::bf16, Element::fp16}) {
            Cell cell = quick_cell("fixed16");
            cell.seq_len = tokens;
            cell.emb_dim = 3 * 16;
            cell.element = element;
            const CaseData data = data_of(cell, kForward);
            Problem wide = data.problem;
            wide.element = Element::float32;
            std::vector<float> output(wide.floats_in(wide.output_rows()));
            cpu::compute_batches(cpu::choose_kernel("", wide, kFixed16), wide, data.values.data(), output.data(), 2);
            EXPECT_EQ(has_reference_bytes(kFixed16, data, output.data()), false);
            round_all(element, output.data(), output.size(), output.data());
            EXPECT_EQ(has_reference_bytes(kFixed16, data, output.data()), true);
        }
}

TEST(ExactRows, OfSmallCasesAreThoseOfEveryUnit) {
    for (const Operation* operation : kOperations)
        for (const int64_t kv_heads : {3, 1}) {
            Cell cell = quick_cell("f32", true);
            cell.kv_heads = kv_heads;
            const CaseData data = data_of(cell, *operation);
            std::vector<float> output(data.problem.floats_in(data.problem.output_rows()));
            compute_by_reference(kF32, data.problem, data.values.data(), output.data());
            EXPECT_LT(error_of_rows(data, output.data()).largest, 1e-4) << operation->name << " " << kv_heads;
            EXPECT_EQ(has_reference_bytes(kF32, data, output.data()), true) << operation->name << " " << kv_heads;
            const size_t unit_floats = data.problem.floats_in(data.problem.queries);
            for (size_t place = 5; place < output.size(); place += unit_floats) {
                std::vector<float> wrong = output;
                wrong[place] = std::nextafter(wrong[place], 9.0f);
                EXPECT_EQ(has_reference_bytes(kF32, data, wrong.data()), false) << operation->name << " " << place;
            }
        }
}

TEST(ExactRows, SampledRowsOfLargeCasesHaveTheReferencesBytes) {
    Cell cell = quick_cell("f32");
    cell.seq_len = 600;
    cell.emb_dim = 3 * 16; // too large to compute in full by the reference
    for (const bool causal : {false, true})
        for (const Contract* contract : contracts()) {
            if (contract->compared != Compared::bytes) continue;
            cell.causal = causal;
            const CaseData data = data_of(cell, kForward);
            std::vector<float> output(data.problem.floats_in(data.problem.output_rows()));
            cpu::compute_batches(cpu::choose_kernel("", data.problem, *contract), data.problem, data.values.data(),
                                 output.data(), 2);
            EXPECT_EQ(has_reference_bytes(*contract, data, output.data()), true) << contract->name;
            for (float& value : output) value = std::nextafter(value, 9.0f);
            EXPECT_EQ(has_reference_bytes(*contract, data, output.data()), false) << contract->name;
        }
}

// The exception of any thread ends the check, as it would in a single thread.
TEST(ExactRows, ThrowWhatAReferenceThrows) {
    const Computed computes[] = {
        {.operation = &kForward, .revision = 1, .masks = {}, .reference = [](const UnitOperands&) {
             throw std::bad_alloc();
         }}};
    Contract contract = kF32;
    contract.computes = computes;
    for (const int64_t tokens : {32, 600}) { // all rows, and some rows
        Cell cell = quick_cell("f32");
        cell.seq_len = tokens;
        const CaseData data = data_of(cell, kForward);
        const std::vector<float> output(data.problem.floats_in(data.problem.output_rows()));
        EXPECT_THROW(has_reference_bytes(contract, data, output.data()), std::bad_alloc) << tokens;
    }
}

using Words = std::vector<std::string>;

template <class Parse>
auto parsed(Words words, Parse parse) {
    words.insert(words.begin(), "bench");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    return parse(static_cast<int>(words.size()), argv.data());
}

Request parse(const Words& words) { return parsed(words, parse_request); }

std::vector<Cell> cells(const Words& words) { return cells_of(parse(words).sweep, "cpu", cpu::kernel_list()); }

Failure failure(const Words& words) {
    return failure_of([&] { cells(words); });
}

TEST(BenchOptions, DefaultsAreThoseOfLab5) {
    const std::vector<Cell> list = cells({});
    ASSERT_EQ(list.size(), 1);
    EXPECT_EQ(words_of(list[0]), "f32 B 32 H 32 N 1024 d 64");
    EXPECT_EQ(list[0].rules.repeats, 30);
    EXPECT_TRUE(list[0].wants(Pass::forward) && list[0].wants(Pass::backward) && list[0].wants(Pass::forward_backward));
}

TEST(BenchOptions, EveryCombination) {
    const std::vector<Cell> list = cells(
        {"--seq_len", "128..512", "--causal=both", "--impl", "NAIVE,hw4", "--warmup", "0,1,2,5", "--batch_size", "1"});
    ASSERT_EQ(list.size(), 3 * 2 * 2 * 4);
    EXPECT_EQ(words_of(list[0]), "naive B 1 H 32 N 128 d 64 warmup 0");
    EXPECT_EQ(words_of(list[4]), "f32 B 1 H 32 N 128 d 64 warmup 0");
    EXPECT_EQ(words_of(list.back()), "f32 B 1 H 32 N 512 d 64 causal warmup 5");
}

TEST(BenchOptions, KernelsAreOfTheirContract) {
    const std::vector<Cell> list = cells({"--kernel", "generic,fixed_generic", "--batch_size", "1"});
    ASSERT_EQ(list.size(), 2);
    EXPECT_EQ(words_of(list[0]), "f32 generic B 1 H 32 N 1024 d 64");
    EXPECT_EQ(words_of(list[1]), "fixed fixed_generic B 1 H 32 N 1024 d 64");
    EXPECT_EQ(cells({"--kernel", "all"}).size(), cpu::kernel_list().size());
    EXPECT_EQ(cells({"--kernel", "generic", "--impl", "f32,naive"}).size(), 2);
}

TEST(BenchOptions, PresetsAndWhatReplacesTheirAxes) {
    EXPECT_EQ(cells({"--preset", "lab5", "--impl", "hw4"}).size(), 81);
    EXPECT_EQ(cells({"--preset", "cs336-attention", "--impl", "hw4"}).size(), 20);
    EXPECT_EQ(cells({"--preset", "cs336-attention"})[0].rules.repeats, 100);
    EXPECT_EQ(cells({"--preset", "cs336-flash", "--impl", "hw4"}).size(), 80);
    EXPECT_TRUE(cells({"--preset", "cs336-flash"})[0].rules.cold);
    EXPECT_EQ(cells({"--preset", "cs336-attention", "--repeats", "3"})[0].rules.repeats, 3);
}

TEST(BenchOptions, Shapes) {
    const std::vector<Cell> list = cells({"--shape", "t28", "--shape", "2,3,64,8", "--shape", "4,16384,64"});
    ASSERT_EQ(list.size(), 2); // no cell twice
    EXPECT_EQ(words_of(list[0]), "f32 B 4 H 1 N 16384 d 64");
    EXPECT_EQ(words_of(list[1]), "f32 B 2 H 3 N 64 d 8");
    for (const char* text :
         {"", "4", "4,5", "4,5,", "4,5,6,", "4,5,6,7,8", "4,5,0", "4,-5,6", "4, 5,6", "4,5,6x", "t31"})
        EXPECT_EQ(failure({"--shape", text}).code, ExitCode::usage) << text;
}

TEST(BenchOptions, ADecodingStep) {
    const Words words = {"--decode", "--kv_heads", "2", "--shape", "3,8,100,64", "--dtype", "bf16", "--causal"};
    const Cell cell = cells(words)[0];
    EXPECT_EQ(words_of(cell), "f32 bf16 B 3 H 8/2 N 1/100 d 64 causal");
    EXPECT_FALSE(cell.wants(Pass::backward));
    EXPECT_EQ(problem_of(cell, kForward).queries, 1);
    EXPECT_EQ(problem_of(cell, kForward).kv_heads, 2);
    EXPECT_EQ(cache_bytes_of(cell), 2.0 * 3 * 2 * 100 * 64 * 2);
    EXPECT_EQ(flops_of(cell, Pass::forward), 4.0 * 3 * 8 * 100 * 64);
    EXPECT_EQ(cells({"--decode=5"})[0].queries, 5);
}

TEST(BenchOptions, TheCoursesShapesAreThoseOfTheTable) {
    std::ifstream table("testcases/cases.tsv");
    int cases = 0;
    for (std::string line; std::getline(table, line);) {
        std::istringstream fields(line);
        std::string name;
        std::array<int64_t, 3> sizes{};
        if (line[0] != 't' || !(fields >> name >> sizes[0] >> sizes[1] >> sizes[2])) continue;
        const Shape shape = shape_named(name).value();
        EXPECT_EQ((std::array{shape.batch_size, shape.seq_len, shape.head_dim}), sizes) << name;
        ++cases;
    }
    EXPECT_EQ(cases, 30);
}

Words words_in(const std::string& line) {
    std::istringstream stream(line);
    return {std::istream_iterator<std::string>(stream), {}};
}

TEST(BenchOptions, AreRefused) {
    for (const char* line :
         {"--batch_size 0", "--kernel generic --impl fixed", "--emb_dim 100 --num_heads 3", "--output - --csv -",
          "--cold --timing wall", "--preset cs336-flash --timing wall", "--shape t28 --seq_len 8",
          "--decode --passes forward,backward", "--shape t28 --preset lab5"})
        EXPECT_EQ(failure(words_in(line)).code, ExitCode::usage) << line;
    EXPECT_EQ(cells({"--emb_dim", "96", "--num_heads", "3,5"}).size(), 2);
}

AllreduceRequest allreduce(const Words& words) { return parsed(words, parse_allreduce); }
StepRequest step_of(const Words& words) { return parsed(words, parse_step); }

TEST(AllreduceOptions, RefusesAllElse) {
    for (const char* line :
         {"--sizes 3", "--via gloo", "--warmup 1,2", "--output r", "x", "--model 71m", "--buckets 1m", "--csv r.csv"})
        EXPECT_EQ(failure_of([&] { allreduce(words_in(line)); }).code, ExitCode::usage) << line;
}

std::vector<std::string> cells_of_step(const Words& words, int ranks) {
    std::vector<std::string> found;
    for (const StepCell& cell : step_of(words).cells(ranks))
        found.push_back(std::string(cell.model->name) + " " + std::to_string(cell.seq_len) + " " +
                        std::to_string(cell.rules.warmup) + " " + name_of(cell.way.kind) + " " +
                        std::to_string(cell.way.bucket_bytes) + (cell.one_rank ? " alone" : "") +
                        (cell.shard ? " sharded" : "") + (cell.attention == StepAttention::naive ? " naive" : ""));
    return found;
}

TEST(StepOptions, ModelsContextsWarmUpsAndWays) {
    EXPECT_EQ(cells_of_step({}, 1), Words{"small 512 5 flat 0"});
    EXPECT_EQ(cells_of_step({"--model", "tiny,71m", "--warmup", "0,2"}, 1),
              (Words{"tiny 64 0 flat 0", "tiny 64 2 flat 0", "71m 512 0 flat 0", "71m 512 2 flat 0"}));
    EXPECT_EQ(cells_of_step({"--model", "tiny"}, 2).size(), 10); // 2, and 2 ways of 4 buckets
    EXPECT_EQ(cells_of_step({"--ways", "naive,overlapped", "--buckets", "25m", "--seq_len", "8"}, 2),
              (Words{"small 8 5 naive 0", "small 8 5 overlapped 26214400"}));
    EXPECT_EQ(cells_of_step({"--preset", "cs336-warmup", "--model", "tiny"}, 1),
              (Words{"tiny 128 0 flat 0", "tiny 128 1 flat 0", "tiny 128 2 flat 0", "tiny 128 5 flat 0"}));
    EXPECT_EQ(cells_of_step({"--preset", "cs336-step"}, 1).size(), 5 * 4);
    EXPECT_EQ(cells_of_step(words_in("--model tiny --preset cs336-ddp --ways flat"), 2),
              (Words{"tiny 128 5 flat 0 alone", "tiny 128 5 flat 0"}));
    EXPECT_EQ(cells_of_step(words_in("--preset cs336-shard --model tiny"), 2),
              (Words{"tiny 128 5 flat 0", "tiny 128 5 flat 0 sharded"}));
    EXPECT_EQ(cells_of_step(words_in("--preset cs336-naive --model tiny --seq_len 8"), 1),
              (Words{"tiny 8 5 flat 0", "tiny 8 5 flat 0 naive"}));
    const std::vector<StepCell> cells = step_of({"--model", "tiny,small", "--contract", "f32,bf16"}).cells(1);
    ASSERT_EQ(cells.size(), 4);
    EXPECT_EQ((std::pair(cells[1].contract, cells[2].contract)), (std::pair(&kBf16, &kF32)));
}

TEST(StepOptions, AreRefused) {
    for (const char* line : {"--model gpt", "--repeats 0", "--ways none", "--via mpi", "--micro_batch 3",
                             "--preset lab5", "--memory m.json", "--attention flash", "--shard=maybe",
                             "--contract fixed", "--operations --device cpu", "--operations --contract bf16"})
        EXPECT_EQ(failure_of([&] { step_of(words_in(line)); }).code, ExitCode::usage) << line;
    EXPECT_EQ(step_of({}).device, Device::cpu);
    EXPECT_EQ(step_of({"--device", "gpu"}).device, Device::gpu);
    const StepRequest of_operations = step_of(words_in("--preset cs336-step --operations --repeats 7"));
    EXPECT_EQ(of_operations.device, Device::gpu);
    EXPECT_EQ((std::pair(of_operations.warmups, of_operations.rules.repeats)), (std::pair(std::vector{1}, 7)));
    EXPECT_EQ(of_operations.cells(1).size(), 5 * 4);
    EXPECT_TRUE(of_operations.cells(1).front().operations);
}

} // namespace
} // namespace hw4::bench
