#include "src/run/output_checksum.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace hw4 {
namespace {

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

} // namespace
} // namespace hw4
