// Cells measured on the CPU, and the checks of their results.
#include <functional>
#include <new>

#include "src/base/error.h"
#include "src/bench/exact_rows.h"
#include "src/bench/measure.h"
#include "src/cpu/kernels.h"
#include "tests/support/attention_case.h"
#include "tests/support/compute_batches.h"

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

} // namespace
} // namespace hw4::bench
