#include "src/run/output_checksum.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace hw4 {
namespace {

TEST(OutputChecksum, OfNothing) { EXPECT_EQ(OutputChecksum().text(), "00000000"); }

TEST(OutputChecksum, OfAKnownText) {
    OutputChecksum checksum;
    checksum.add(0, "123456789", 9);
    EXPECT_EQ(checksum.text(), "cbf43926"); // the check value of CRC-32
}

TEST(OutputChecksum, DoesNotDependOnTheParts) {
    std::vector<unsigned char> bytes(10007);
    std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(3));
    OutputChecksum whole;
    whole.add(0, bytes.data(), bytes.size());
    for (const size_t part : {1u, 64u, 1000u, 9999u}) {
        OutputChecksum backwards;
        for (size_t at = (bytes.size() - 1) / part * part;; at -= part) {
            backwards.add(at, bytes.data() + at, std::min(part, bytes.size() - at));
            if (at == 0) break;
        }
        EXPECT_EQ(backwards.text(), whole.text()) << part;
    }
}

TEST(OutputChecksum, InPartsIsThatOfTheWhole) {
    constexpr size_t kPart = OutputChecksum::kPartBytes;
    std::vector<uint32_t> numbers((3 * kPart + 8) / sizeof(uint32_t));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<uint32_t>(i) * 2654435761u; // parts differ
    for (const size_t bytes : {size_t{0}, size_t{1}, kPart - 1, kPart, kPart + 1, 2 * kPart, 3 * kPart + 5}) {
        OutputChecksum whole;
        whole.add(0, numbers.data(), bytes);
        OutputChecksum in_parts;
        in_parts.add_in_parts(0, numbers.data(), bytes);
        EXPECT_EQ(in_parts.text(), whole.text()) << bytes;
    }
}

// Beside parts that were added one by one.
TEST(OutputChecksum, InPartsBeginsAtItsOffset) {
    const std::vector<uint32_t> numbers(OutputChecksum::kPartBytes, 7);
    const auto* const bytes = reinterpret_cast<const unsigned char*>(numbers.data());
    const size_t count = numbers.size() * sizeof(uint32_t);
    OutputChecksum whole;
    whole.add(0, bytes, count);
    OutputChecksum checksum;
    checksum.add_in_parts(10, bytes + 10, count - 10);
    checksum.add(0, bytes, 10);
    EXPECT_EQ(checksum.text(), whole.text());
}

} // namespace
} // namespace hw4
