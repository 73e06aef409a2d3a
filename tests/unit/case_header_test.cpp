#include "src/io/case_header.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "src/problem/words.h"
#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

constexpr int32_t kMost = std::numeric_limits<int32_t>::max();

// B 3, 4 and 2 heads, N_q 5, N_k 7, d 6.
std::vector<int32_t> good() { return {-2, 0, 0, 0, 3, 4, 2, 5, 7, 6, 6, 0, 0, 0, 0, 0}; }

Bytes bytes_of(const std::vector<int32_t>& fields) {
    Bytes bytes(fields.size() * sizeof(int32_t));
    std::memcpy(bytes.data(), fields.data(), bytes.size());
    return bytes;
}

std::vector<int32_t> with(size_t place, int32_t value) {
    std::vector<int32_t> fields = good();
    fields[place] = value;
    return fields;
}

Failure refusal(const std::vector<int32_t>& fields) {
    return failure_of([&] { parse_header("a.in", bytes_of(fields)); });
}

Failure bad(const std::string& message) { return {ExitCode::bad_data, "a.in: header: " + message}; }

TEST(CaseHeader, OfVersion2SaysAll) {
    const CaseHeader header = parse_header("a.in", bytes_of(good()));
    EXPECT_EQ(header.bytes, 64u);
    const Problem& problem = header.problem;
    EXPECT_EQ(problem.operation, &kForward);
    EXPECT_EQ(problem.mask, Mask::none);
    EXPECT_EQ(sizes_of(problem).second, "(3, 4, 2, 5, 7, 6)");
    EXPECT_EQ(parse_header("a.in", bytes_of(with(1, 1))).problem.operation, &kBackward);
    EXPECT_EQ(parse_header("a.in", bytes_of(with(2, 1))).problem.mask, Mask::causal);
}

TEST(CaseHeader, IsWrittenAsItIsRead) {
    for (const std::vector<int32_t>& fields : {good(), with(1, 1), with(2, 1), with(3, 1), with(3, 2), with(8, kMost),
                                               with(10, 1), with(10, 7), with(14, 1)})
        EXPECT_EQ(header_of(parse_header("a.in", bytes_of(fields)).problem, true), bytes_of(fields));
    EXPECT_EQ(header_of(parse_header("a.in", bytes_of(good())).problem), bytes_of(good()));
    EXPECT_EQ(header_of(Problem(2, 3, 4)), bytes_of({2, 3, 4}));
    EXPECT_EQ(header_of(Problem(2, 3, 4), true), bytes_of({-2, 0, 0, 0, 2, 1, 1, 3, 3, 4, 4, 0, 0, 0, 0, 0}));
}

TEST(CaseHeader, HasTwoNumbersOfColumnsAndLengths) {
    for (const int32_t d_v : {5, 20}) {
        const CaseHeader header = parse_header("a.in", bytes_of(with(10, d_v)));
        EXPECT_EQ(header.problem.dim, std::max(6, d_v));
        EXPECT_EQ(header.problem.key_dim(), 6);
        EXPECT_EQ(header.problem.value_dim(), d_v);
        EXPECT_EQ(file_bytes(header), static_cast<Wide>(64 + 4 * 3 * (6 * (20 + 14) + d_v * 14)));
    }
    const CaseHeader header = parse_header("a.in", bytes_of(with(14, 1)));
    EXPECT_TRUE(header.problem.by_lengths);
    EXPECT_EQ(header.bytes, 64u + 4 * 3);
}

TEST(CaseHeader, RefusesWhatIsNotKnown) {
    for (const int32_t value : {-1, 3, kMost}) {
        const std::string found = " = " + std::to_string(value) + ", need 0 ";
        EXPECT_EQ(refusal(with(1, value)), bad("operation" + found + "(forward) or 1 (backward) (offset 4)"));
        EXPECT_EQ(refusal(with(2, value)), bad("mask" + found + "(none) or 1 (causal) (offset 8)"));
        EXPECT_EQ(refusal(with(3, value)), bad("element" + found + "(float32), 1 (bf16) or 2 (fp16) (offset 12)"));
    }
    EXPECT_EQ(refusal(with(1, 2)), bad("operation = 2, need 0 (forward) or 1 (backward) (offset 4)"));
    EXPECT_EQ(refusal(with(2, 2)), bad("mask = 2, need 0 (none) or 1 (causal) (offset 8)"));
}

TEST(CaseHeader, RefusesFieldsThatDoNotAgree) {
    EXPECT_EQ(refusal(with(6, 3)), bad("key-value heads = 3, need a number that divides heads = 4 (offset 24)"));
    EXPECT_EQ(refusal(with(6, 8)), bad("key-value heads = 8, need a number that divides heads = 4 (offset 24)"));
    EXPECT_EQ(refusal(with(6, 1)), Failure{});
    EXPECT_EQ(refusal(with(10, 65537)), bad("d_v = 65537, need d = 6, or both at most 65536 (offset 40)"));
    EXPECT_EQ(refusal(with(14, 2)), bad("lengths = 2, need 0, or 1 where lengths follow (offset 56)"));
    EXPECT_EQ(refusal(with(15, 1)), bad("field 15 = 1, need 0 (offset 60)"));
}

} // namespace
} // namespace hw4
