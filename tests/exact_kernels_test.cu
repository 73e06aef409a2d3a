// Every kernel of the table against the sequential reference, byte for byte.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <random>
#include <tuple>

#include "../src/gpu/exact/exact_kernels.h"
#include "../src/gpu/kernels.h"
#include "../src/gpu/memory.h"
#include "attention_case.h"
#include "need_gpu.h"

namespace hw4::gpu {
namespace {

// Runs the kernel with every float that is not input poisoned: the padding of both pitches and the output. A NaN
// that the kernel reads, or an element it does not write, shows in the bytes.
std::vector<float> attend(const Kernel& kernel, const AttentionCase& test) {
    const Shape& shape = test.shape;
    const size_t in_rows = test.qkv.size() / static_cast<size_t>(shape.dim);
    const size_t out_rows = test.expected.size() / static_cast<size_t>(shape.dim);
    const Stream stream = make_stream();
    PitchedMatrix qkv(in_rows, static_cast<size_t>(shape.dim));
    PitchedMatrix out(out_rows, static_cast<size_t>(shape.dim));
    HW4_CUDA(cudaMemsetAsync(qkv.data(), 0xff, qkv.stride() * in_rows * sizeof(float), stream.get()));
    HW4_CUDA(cudaMemsetAsync(out.data(), 0xff, out.stride() * out_rows * sizeof(float), stream.get()));
    qkv.copy_in(test.qkv.data(), in_rows, stream.get());
    kernel.launch({qkv.data(), qkv.stride(), out.data(), out.stride(), shape.batches, shape.tokens,
                   static_cast<int>(shape.dim), scale_for(shape.dim)},
                  stream.get());
    std::vector<float> result(test.expected.size());
    out.copy_out(result.data(), out_rows, stream.get());
    HW4_CUDA(cudaStreamSynchronize(stream.get()));
    return result;
}

// The same case for every kernel: the reference is computed once.
const AttentionCase& reference_case(const Shape& shape, CaseKind kind, uint64_t seed) {
    using Key = std::tuple<int64_t, int64_t, int64_t, CaseKind, uint64_t>;
    static std::map<Key, AttentionCase> cases;
    const Key key{shape.batches, shape.tokens, shape.dim, kind, seed};
    const auto found = cases.find(key);
    return found != cases.end() ? found->second : cases.emplace(key, AttentionCase(shape, kind, seed)).first->second;
}

// A card that no kernel can ask too much of.
constexpr Device kAblestCard{std::numeric_limits<int>::max(), std::numeric_limits<size_t>::max(), 1};

class EachGpuKernel : public testing::TestWithParam<Kernel> {
protected:
    void SetUp() override { HW4_SKIP_WITHOUT_GPU(); }

    // Every kernel has to take every shape up to d = 256. Only the card present may stand in the way: too old for the
    // kernel, or with too little shared memory. Then the case is left out, and TearDown says so.
    void expect_reference_bytes(const AttentionCase& test) {
        ASSERT_EQ(why_not(GetParam(), test.shape, kAblestCard), "") << test.name;
        const std::string refusal = why_not(GetParam(), test.shape, current_device());
        if (!refusal.empty()) {
            ++left_out_[refusal];
            return;
        }
        ++compared_;
        EXPECT_TRUE(same_bytes(test.expected, attend(GetParam(), test))) << test.name;
    }

    void TearDown() override {
        for (const auto& [refusal, cases] : left_out_)
            std::printf("left out %d of the cases: %s\n", cases, refusal.c_str());
        if (compared_ == 0 && !left_out_.empty()) GTEST_SKIP() << left_out_.begin()->first;
    }

private:
    int compared_ = 0;
    std::map<std::string, int> left_out_; // by what the card lacks
};

TEST_P(EachGpuKernel, GivesTheReferenceBytesOnEveryKindAndCorner) {
    for (const Shape& shape : corner_shapes())
        for (const CaseKind kind : kAllKinds) expect_reference_bytes(reference_case(shape, kind, 11));
}

TEST_P(EachGpuKernel, GivesTheReferenceBytesForEveryHeadSize) {
    for (int64_t dim = 1; dim <= 256; ++dim)
        expect_reference_bytes(reference_case({1, 40, dim}, CaseKind::uniform, static_cast<uint64_t>(dim)));
}

// Some kernels take other tiles when there is enough for every multiprocessor to do.
TEST_P(EachGpuKernel, GivesTheReferenceBytesWhenTheCardIsFull) {
    const int64_t batches = (current_device().multiprocessors + 1) / 2;
    for (const int64_t dim : {32, 37, 64, 101, 128})
        for (const CaseKind kind : {CaseKind::uniform, CaseKind::brink, CaseKind::fading})
            expect_reference_bytes(reference_case({batches, 200, dim}, kind, 6));
}

TEST_P(EachGpuKernel, GivesTheReferenceBytesOnRandomShapes) {
    static const unsigned seed = std::random_device{}();
    std::printf("seed %u\n", seed);
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto pick = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
    for (int i = 0; i < 200; ++i) {
        // A quarter with several segments, the others small.
        const Shape shape =
            i % 4 == 0 ? Shape{1, pick(1000, 3200), pick(1, 40)} : Shape{pick(1, 4), pick(1, 300), pick(1, 256)};
        const CaseKind kind = kAllKinds[static_cast<size_t>(pick(0, kKinds - 1))];
        expect_reference_bytes(reference_case(shape, kind, static_cast<uint64_t>(pick(0, 1 << 30))));
    }
}

TEST_P(EachGpuKernel, TreatsNegativeZerosAsTheReferenceDoes) {
    const AttentionCase test = AttentionCase::with_negative_zeros();
    expect_reference_bytes(test);
}

// Kernels that leave the maximum out must notice every row for which the contract moves M: here the largest score lies
// just inside and just outside, in the first tile, a later one, a later segment, the ragged last row's block.
TEST_P(EachGpuKernel, NoticesScoresThatMoveTheReference) {
    for (const int64_t n : {5, 200, 700})
        for (const int64_t key : {int64_t{1}, n / 2, n - 1})
            for (const float units : {70.5f, 71.5f, 72.5f, 73.0f, 90.0f, -119.0f, -121.0f, -130.0f})
                expect_reference_bytes(AttentionCase::with_scores(n, {{key, units}}));
    for (const float units : {-6.5f, -7.5f, -8.5f, -9.0f, -40.0f}) {
        std::vector<std::pair<int64_t, float>> first_tile;
        for (int64_t key = 0; key < kKeyTile; ++key) first_tile.emplace_back(key, units);
        for (const int64_t n : {32, 70, 700}) expect_reference_bytes(AttentionCase::with_scores(n, first_tile));
    }
}

// For compute-sanitizer (tests/gpu-check), whose tools take a thousand times as long: few and small, but ragged in N
// and d, every template size of every kernel with whole and with partial rows, two segments, and scores that move the
// reference.
TEST_P(EachGpuKernel, SanitizerShapes) {
    for (const Shape& shape : std::vector<Shape>{{1, 1, 1},
                                                 {1, 66, 32},
                                                 {1, 66, 64},
                                                 {1, 66, 128},
                                                 {1, 66, 7},
                                                 {1, 33, 50},
                                                 {1, 33, 100},
                                                 {1, 33, 200},
                                                 {1, 20, 256}})
        expect_reference_bytes(reference_case(shape, CaseKind::uniform, 3));
    for (const int64_t dim : {32, 64, 128}) expect_reference_bytes(reference_case({1, 33, dim}, CaseKind::brink, 3));
}

TEST_P(EachGpuKernel, TakesManySmallBatches) {
    expect_reference_bytes(reference_case({14000, 3, 5}, CaseKind::uniform, 4));
}

// Kernels with register tiles take larger ones when there is enough for every multiprocessor to do.
class EachTileKernel : public EachGpuKernel {};

std::vector<Kernel> tile_kernels() {
    std::vector<Kernel> found;
    for (const Kernel& kernel : kernels())
        if (kernel.shared_bytes == shared_bytes_of_tiles) found.push_back(kernel);
    return found;
}

TEST_P(EachTileKernel, SanitizerLargeTiles) {
    const int64_t batches = current_device().multiprocessors / 2 + 1; // the fewest for them
    for (const int64_t dim : {64, 50, 128})
        expect_reference_bytes(reference_case({batches, 65, dim}, CaseKind::uniform, 3));
}

INSTANTIATE_TEST_SUITE_P(Exact, EachTileKernel, testing::ValuesIn(tile_kernels()),
                         [](const auto& instance) { return std::string(instance.param.name); });
INSTANTIATE_TEST_SUITE_P(Exact, EachGpuKernel, testing::ValuesIn(kernels()),
                         [](const auto& instance) { return std::string(instance.param.name); });

} // namespace
} // namespace hw4::gpu
