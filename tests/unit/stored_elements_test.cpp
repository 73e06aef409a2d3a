// Cases with numbers stored as bf16 or fp16, from file to file.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "src/cpu/engine.h"
#include "src/problem/element.h"
#include "src/run/pipeline.h"
#include "tests/support/file_to_file.h"
#include "tests/support/like_reference.h"
#include "tests/support/passing_engine.h"

namespace hw4 {
namespace {

constexpr StagingLimits kSmall = {3, 2, 4096, 3 * 4096}; // a ring of three pages

class StoredElement : public testing::TestWithParam<Element> {
protected:
    static Problem problem(int64_t batches = 12, int64_t queries = 50, int64_t dim = 33) {
        Problem made(batches, queries, dim);
        made.heads = made.kv_heads = 2;
        made.keys = 21;
        made.element = GetParam();
        return made;
    }

    // Values that the element can represent.
    static std::vector<float> values_of(const Problem& of) {
        std::vector<float> values(of.floats_in(of.input_rows()));
        fill_case_values({of, CaseKind::uniform, 8}, 0, values.size(), values.data());
        round_all(of.element, values.data(), values.size(), values.data());
        return values;
    }

    void write_case(const Problem& of, const std::vector<float>& values) const {
        write_file(folder_ / "a.in", file_of(of, values));
    }

    RunReport run(const Contract& contract, int64_t chunk, const std::string& lse_name = "") {
        CaseReader input(folder_ / "a.in");
        OutputFile output(folder_ / "a.out", interrupts_);
        std::optional<OutputFile> lse;
        if (!lse_name.empty()) lse.emplace(folder_ / lse_name, interrupts_);
        EngineOptions options;
        options.contract = &contract;
        options.chunk_batches = chunk;
        options.kernel = kernel_like_reference(contract);
        OutputChecksums checksums;
        const auto make = [](const EngineRequest& request) { return cpu::make_engine(request); };
        const RunReport report =
            run_case({input, output, options, kSmall, always(make), nullptr, lse ? &*lse : nullptr, &checksums});
        output.commit(false);
        if (lse) lse->commit(false);
        return report;
    }

    // Writes a.out and a.lse.
    void pass(const Cut& cut, Leaves leaves) {
        CaseReader input(folder_ / "a.in");
        OutputFile output(folder_ / "a.out", interrupts_);
        OutputFile lse(folder_ / "a.lse", interrupts_);
        const auto make = [&](const EngineRequest& request) {
            return std::make_unique<PassingEngine>(request, cut, Faults{}, leaves);
        };
        run_case({input, output, {}, kSmall, always(make), nullptr, &lse});
        output.commit(false);
        lse.commit(false);
    }

    InterruptGuard interrupts_;
    TemporaryFolder folder_;
};

TEST_P(StoredElement, IsWidenedWhenReadAndRoundedWhenWritten) {
    const Problem of = problem();
    const std::vector<float> values = values_of(of);
    write_case(of, values);
    EXPECT_EQ(read_file(folder_ / "a.in").size(), 64 + 2 * values.size());
    for (const Contract* contract : contracts()) {
        if (!why_not(*contract, of).empty()) continue;
        std::vector<float> out(of.floats_in(of.output_rows()));
        std::vector<RowStatistics> rows(static_cast<size_t>(of.output_rows()));
        compute_by_reference(*contract, of, values.data(), out.data(), rows.data());
        std::vector<float> logsumexp(rows.size());
        logsumexps(*contract, of, rows.data(), of.output_rows(), logsumexp.data());
        const std::string wanted = stored(GetParam(), out);
        OutputChecksum of_wanted;
        of_wanted.add(0, wanted.data(), wanted.size());
        for (const int64_t chunk : {1, 5, 12}) {
            EXPECT_EQ(run(*contract, chunk).output_crc32, of_wanted.text());
            EXPECT_TRUE(read_file(folder_ / "a.out") == wanted) << contract->name << ", " << chunk;
            (void)run(*contract, chunk, "a.lse");
            EXPECT_TRUE(read_file(folder_ / "a.out") == wanted) << contract->name << ", " << chunk << ", with --lse";
            EXPECT_TRUE(read_file(folder_ / "a.lse") == bytes_of(logsumexp.data(), logsumexp.size()))
                << contract->name << ", " << chunk;
        }
    }
}

// An engine returns its input: rows reach it, and leave it, as they are in the files, wherever they are cut.
TEST_P(StoredElement, ReachesAnEngineAndTheFileAsItIs) {
    for (const int64_t dim : {1, 3, 33, 64, 5000}) {
        Problem of = problem(12, dim == 5000 ? 2 : 50, dim);
        of.heads = of.kv_heads = 1;
        of.keys = of.queries;
        const std::vector<float> values = values_of(of);
        write_case(of, values);
        const std::string given = stored(of.element, values);
        std::string wanted;
        for (int64_t batch = 0; batch < of.batches; ++batch) // the rows of Q
            wanted += given.substr(static_cast<size_t>(batch * of.batch_input_rows()) * of.stored_row_bytes(),
                                   static_cast<size_t>(of.batch_output_rows()) * of.stored_row_bytes());
        std::vector<RowStatistics> rows;
        for (size_t at = 0; at < wanted.size(); at += of.stored_row_bytes())
            rows.push_back(PassingEngine::statistics_of(wanted.data() + at, of.stored_row_bytes()));
        std::vector<float> logsumexp(rows.size());
        logsumexps(kF32, of, rows.data(), of.output_rows(), logsumexp.data());
        for (const int64_t queries : {0, 7})
            for (const auto leaves : {Leaves::in_slot, Leaves::in_staging, Leaves::by_turns}) {
                pass({2, queries == 0 ? 5 : 1, queries}, leaves);
                EXPECT_TRUE(read_file(folder_ / "a.out") == wanted) << dim << ", " << queries;
                EXPECT_TRUE(read_file(folder_ / "a.lse") == bytes_of(logsumexp.data(), logsumexp.size()))
                    << dim << ", " << queries;
            }
    }
}

// The last number of its output is infinite. The pipeline must notice this in the stored output.
class InfiniteEngine : public PassingEngine {
public:
    InfiniteEngine(const EngineRequest& request, const Cut& cut)
        : PassingEngine(request, cut, {}, Leaves::in_staging), problem_(request.problem) {}

    const void* fetch(const RowsOut& rows) override {
        const void* const fetched = PassingEngine::fetch(rows);
        const float infinity = HUGE_VALF;
        const size_t last = problem_.floats_in(rows.rows) - 1;
        narrow(problem_.element, &infinity, 1,
               static_cast<unsigned char*>(rows.staging) + last * bytes_of(problem_.element));
        return fetched;
    }

private:
    const Problem problem_;
};

TEST_P(StoredElement, IsRefusedWhereAnEngineGivesInfinity) {
    Problem of = problem(3, 20, 5);
    of.heads = of.kv_heads = 1;
    of.keys = of.queries;
    write_case(of, values_of(of));
    const auto failure_under = [&](const Contract& contract) {
        CaseReader input(folder_ / "a.in");
        OutputFile output(folder_ / "a.out", interrupts_);
        EngineOptions options;
        options.contract = &contract;
        const auto make = [](const EngineRequest& request) {
            return std::make_unique<InfiniteEngine>(request, Cut{2, 1});
        };
        return failure_of([&] { run_case({input, output, options, kSmall, always(make)}); });
    };
    const std::string beyond = folder_ / "a.in" + ": its outputs go beyond " + name_of(GetParam()) + "; need ";
    EXPECT_EQ(failure_under(kF32), (Failure{ExitCode::bad_data, beyond + "elements of float32, or smaller numbers"}));
    EXPECT_EQ(failure_under(GetParam() == Element::bf16 ? kBf16 : kFp16),
              (Failure{ExitCode::bad_data, beyond + "another contract, or smaller numbers"}));
}

INSTANTIATE_TEST_SUITE_P(Types, StoredElement, testing::Values(Element::bf16, Element::fp16),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

float value_of(Element element, uint16_t bits) {
    return element == Element::bf16 ? bf16_value(bits) : fp16_value(bits);
}

class NarrowElement : public testing::TestWithParam<Element> {
protected:
    static uint16_t bits(float x) { return static_cast<uint16_t>(bits_of(GetParam(), x)); }
    static float value(uint32_t of) { return value_of(GetParam(), static_cast<uint16_t>(of)); }
    static uint32_t infinity() { return GetParam() == Element::bf16 ? 0x7f80u : 0x7c00u; }
};

TEST_P(NarrowElement, KeepsEveryValue) {
    constexpr uint32_t kSign = 0x8000u;
    for (uint32_t of = 0; of <= 0xffffu; ++of) {
        const bool nan = (of & ~kSign) > infinity();
        ASSERT_EQ(std::isnan(value(of)), nan) << of;
        ASSERT_EQ(std::signbit(value(of)), (of & kSign) != 0) << of;
        if (nan)
            ASSERT_TRUE(std::isnan(value(bits(value(of))))) << of;
        else
            ASSERT_EQ(bits(value(of)), of);
    }
}

// From the smallest denormal on: a number between two neighbours rounds to the nearer, halfway to the even one.
TEST_P(NarrowElement, RoundsToNearestEven) {
    for (uint32_t of = 0; of + 1 < infinity(); ++of) {
        ASSERT_LT(value(of), value(of + 1));
        const float half_way = value(of) + (value(of + 1) - value(of)) / 2;
        ASSERT_EQ(bits(half_way), of % 2 == 0 ? of : of + 1) << of;
        ASSERT_EQ(bits(-half_way), 0x8000u | bits(half_way)) << of;
        ASSERT_EQ(bits(std::nextafter(half_way, 0.0f)), of) << of;
        ASSERT_EQ(bits(std::nextafter(half_way, HUGE_VALF)), of + 1) << of;
    }
}

TEST_P(NarrowElement, IsInfiniteFromItsOverflowOn) {
    const float overflow = overflow_of(GetParam());
    EXPECT_EQ(bits(overflow), infinity());
    EXPECT_EQ(bits(-overflow), 0x8000u | infinity());
    EXPECT_EQ(bits(HUGE_VALF), infinity());
    EXPECT_EQ(bits(std::nextafter(overflow, 0.0f)), infinity() - 1) << "the largest there is";
}

// Converts any number of elements within the same memory.
TEST_P(NarrowElement, IsWidenedAndNarrowedInPlace) {
    for (const size_t count : {0, 1, 2, 255, 256, 257, 1000}) {
        std::vector<float> values(count);
        for (size_t i = 0; i < count; ++i) values[i] = value(static_cast<uint32_t>(i * 31));
        std::vector<uint16_t> stored(count);
        for (size_t i = 0; i < count; ++i) stored[i] = static_cast<uint16_t>(i * 31);
        std::vector<float> room = values;
        narrow(GetParam(), room.data(), count, room.data());
        EXPECT_TRUE(count == 0 || std::memcmp(room.data(), stored.data(), count * 2) == 0) << count;
        room.assign(count, NAN);
        if (count > 0) std::memcpy(reinterpret_cast<char*>(room.data()) + count * 2, stored.data(), count * 2);
        widen_at_end(GetParam(), room.data(), count);
        EXPECT_EQ(room, values) << count;
        room.assign(count, NAN);
        widen(GetParam(), stored.data(), count, room.data());
        EXPECT_EQ(room, values) << count << ", elsewhere";
    }
}

// The number may be at any place among others.
TEST_P(NarrowElement, IsFiniteOrNot) {
    const auto none = static_cast<uint16_t>(infinity() + 1);
    for (const size_t count : {1, 2, 255, 256, 257, 1000}) {
        std::vector<uint16_t> stored(count, static_cast<uint16_t>(infinity() - 1));
        EXPECT_TRUE(are_finite(GetParam(), stored.data(), count)) << count;
        for (const auto bits : {static_cast<uint16_t>(infinity()), static_cast<uint16_t>(0x8000u | infinity()), none})
            for (const size_t place : {size_t{0}, count / 2, count - 1}) {
                std::vector<uint16_t> with = stored;
                with[place] = bits;
                EXPECT_FALSE(are_finite(GetParam(), with.data(), count)) << count << ", " << place;
            }
    }
}

INSTANTIATE_TEST_SUITE_P(Types, NarrowElement, testing::Values(Element::bf16, Element::fp16),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

} // namespace
} // namespace hw4
