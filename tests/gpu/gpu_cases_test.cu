// One GPU engine computes case after case.
#include <gtest/gtest.h>

#include <initializer_list>

#include "src/cpu/engine.h"
#include "src/gpu/engine.h"
#include "src/run/conveyor.h"
#include "tests/support/file_to_file.h"
#include "tests/support/listed_cases.h"
#include "tests/support/need_gpu.h"
#include "tests/support/subject.h"

namespace hw4::gpu {
namespace {

class GpuCases : public ::testing::Test {
protected:
    // Adds a case with such elements in its file.
    void add(const AttentionCase& test, Element element = Element::float32) {
        const std::string name = folder_ / std::to_string(names_.size());
        Problem problem = test.problem;
        problem.element = element;
        write_file(name + ".in", file_of(problem, test.qkv));
        names_.push_back({name + ".in", name + ".out"});
        expected_.push_back(stored(element, test.expected));
    }
    // Adds a case of numbers that the element can represent.
    void add_stored(const Problem& problem, Element element, const Contract& contract) {
        const size_t count = problem.batch_input_floats();
        const auto fill = [&](float* qkv, int64_t batch) {
            fill_case_values({problem, CaseKind::uniform, 9}, static_cast<size_t>(batch) * count, count, qkv);
            round_all(element, qkv, count, qkv);
        };
        add(AttentionCase::filled(problem, name_of(element), fill, contract), element);
    }
    // Alternates larger and smaller cases, of many chunks and of one; another d changes the layout of all buffers.
    void add_shapes(const Contract& contract) {
        for (const Problem& problem :
             {Problem{9, 133, 64}, Problem{1, 1, 1}, Problem{50, 256, 128}, Problem{3, 70, 37}, Problem{300, 128, 32},
              Problem{2, 1000, 64}, Problem{5, 33, 256}, Problem{1, 2500, 64}, Problem{9, 133, 64}})
            add(reference_case(problem, CaseKind::uniform, 9, contract));
    }

    // Returns how each case ended; checks the output of every case that did not fail.
    std::vector<Failure> run(const EngineOptions& options, Timeline* timeline = nullptr) {
        hw4::ListedCases cases(names_, interrupts_);
        const StagingLimits limits;
        const auto choose = [](const EngineRequest& request) {
            if (unsupported_reason(request.problem, "", *request.options.contract).empty())
                return EngineMaker{"gpu", make_engine};
            return EngineMaker{"cpu", [](const EngineRequest& first) { return cpu::make_engine(first); }};
        };
        run_conveyor(cases, {options, limits, plan_for_any(limits), true, choose, timeline});
        for (size_t i = 0; i < cases.ends.size(); ++i)
            if (cases.ends[i] == Failure{}) {
                EXPECT_TRUE(read_file(names_[i].output) == expected_[i]) << "case " << i;
            }
        return cases.ends;
    }

    // Tries each number of streams and each chunk size, with both ways of copying by turns.
    void expect_no_failure(const Contract& contract, std::initializer_list<int> streams,
                           std::initializer_list<int64_t> chunks) {
        for (const int count : streams) {
            ++turn_; // a chunk size has the other way with the next number of streams, and under the next contract
            for (const int64_t batches : chunks) {
                EngineOptions options;
                options.contract = &contract;
                options.copies = turn_++ % 2 == 0 ? Copies::two_d : Copies::linear;
                options.streams = count;
                options.chunk_batches = batches;
                for (const Failure& end : run(options))
                    EXPECT_EQ(end, Failure{}) << contract.name << name_of(options.copies) << count << batches;
            }
        }
    }

    size_t turn_ = 0;
    InterruptGuard interrupts_;
    TemporaryFolder folder_;
    std::vector<hw4::Names> names_;
    std::vector<std::string> expected_;
};

TEST_F(GpuCases, GiveTheReferenceBytesOneAfterTheOther) {
    HW4_SKIP_WITHOUT_GPU();
    for (const Contract* contract : contracts_by_bytes()) {
        names_.clear();
        expected_.clear();
        add_shapes(*contract);
        expect_no_failure(*contract, {1, 2, 4}, {0, 1});
    }
}

// The content of a slot, and whether floats are beside it, changes from case to case.
TEST_F(GpuCases, MayBeStoredInOtherElementsByTurns) {
    HW4_SKIP_WITHOUT_GPU();
    for (const Contract* contract : {&kF32, &kFixed16}) {
        names_.clear();
        expected_.clear();
        for (const Problem& problem : {Problem{9, 133, 64}, Problem{5, 70, 37}})
            for (const Element element : {Element::float32, Element::bf16, Element::fp16, Element::float32})
                add_stored(problem, element, *contract);
        expect_no_failure(*contract, {1, 3}, {0, 2});
    }
}

// Slices of one case run in the streams of all slots while the next case comes.
TEST_F(GpuCases, MayBeCutIntoSlices) {
    HW4_SKIP_WITHOUT_GPU();
    add_shapes(kF32);
    EngineOptions options;
    options.streams = 3;
    options.chunk_batches = 1;
    options.queries_at_once = 512;
    Timeline timeline;
    for (const Failure& end : run(options, &timeline)) EXPECT_EQ(end, Failure{});
    size_t copied_in = 0;
    for (const auto& [input, output] : names_) copied_in += read_file(input).size() - 12;
    EXPECT_EQ(summarise(timeline.spans())[Stage::copy_in].bytes, copied_in);
}

// A case fails in its last chunk, while others are computed and fetched; its last kernels' times have no output.
TEST_F(GpuCases, OneMayFailInItsMiddle) {
    HW4_SKIP_WITHOUT_GPU();
    AttentionCase bad({275, 128, 64}, CaseKind::uniform, 9);
    bad.qkv.back() = HUGE_VALF;
    for (int i = 0; i < 2; ++i) {
        add(reference_case({60, 128, 64}, CaseKind::uniform, 9));
        add(bad);
    }
    add(reference_case({9, 133, 64}, CaseKind::uniform, 9));
    EngineOptions options;
    options.chunk_batches = 7;
    for (int times = 0; times < 5; ++times) {
        Timeline timeline;
        const std::vector<Failure> ends = run(options, &timeline);
        ASSERT_EQ(ends.size(), 5u);
        for (const size_t i : {0u, 2u, 4u}) EXPECT_EQ(ends[i], Failure{}) << i;
        for (const size_t i : {1u, 3u}) EXPECT_EQ(ends[i].code, ExitCode::bad_data) << i;
    }
}

// Small enough for compute-sanitizer (make gpu-check): slots that are reused, and slots that move.
TEST_F(GpuCases, SanitizerRun) {
    HW4_SKIP_WITHOUT_GPU();
    for (const Problem& problem : {Problem{5, 33, 64}, Problem{2, 40, 37}, Problem{3, 133, 64}, Problem{1, 5, 8}})
        add(reference_case(problem, CaseKind::uniform, 9));
    EngineOptions options;
    options.streams = 2;
    options.chunk_batches = 2;
    for (const Failure& end : run(options)) EXPECT_EQ(end, Failure{});
}

} // namespace
} // namespace hw4::gpu
