// The properties of attention and of the causal mask for the GPU kernels that hw4 chooses; with HW4_SOAK for all. All
// kernels of a contract have the reference's bytes (exact_kernels_test.cu), and the reference has these properties.
#include "src/gpu/engine.h"
#include "tests/support/causal.h"
#include "tests/support/file_to_file.h"
#include "tests/support/gpu_subjects.h"
#include "tests/support/need_gpu.h"
#include "tests/support/properties.h"

namespace hw4 {
namespace {

std::vector<Subject> subjects(const std::vector<const Contract*>& contracts) {
    const std::vector<std::string> chosen = {"register_rows", "drawn_tiles", "split_keys", "mma_groups",
                                             "wgmma_shares",  "mma_pairs",   "wgmma_pairs"};
    std::vector<Subject> list;
    for (const Subject& subject : gpu::gpu_subjects(contracts))
        if (soaks() || std::find(chosen.begin(), chosen.end(), subject.name) != chosen.end()) list.push_back(subject);
    return list;
}

INSTANTIATE_TEST_SUITE_P(Gpu, Properties, testing::ValuesIn(subjects(contracts_by_bytes())), name_of_instance);
INSTANTIATE_TEST_SUITE_P(Gpu, Causal, testing::ValuesIn(subjects(contracts_by_bytes())), name_of_instance);
INSTANTIATE_TEST_SUITE_P(Gpu, FixedProperties, testing::ValuesIn(subjects({&kFixed, &kFixed16})), name_of_instance);
INSTANTIATE_TEST_SUITE_P(Gpu, FixedCausal, testing::ValuesIn(subjects({&kFixed, &kFixed16})), name_of_instance);
// A build may have no kernel of these contracts.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FixedProperties);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FixedCausal);

// Any number of chunks, streams and pieces, and either way of copying rows; the contracts by turns.
TEST(GpuRun, GivesTheSameBytesHoweverItIsCut) {
    HW4_SKIP_WITHOUT_GPU();
    constexpr StagingLimits kLimits[] = {{1, 1, 80, 160}, {3, 2, 4096, 3 * 4096}, {}};
    const std::vector<const Contract*> contracts = contracts_by_bytes();
    size_t turn = 0;
    for (const int streams : {1, 3, 16})
        for (const int64_t chunk : {1, 4, 11})
            for (const Copies copies : {Copies::two_d, Copies::linear}) {
                ++turn; // another contract has these limits next time
                for (const StagingLimits& limits : kLimits) {
                    EngineOptions options;
                    options.contract = contracts[turn++ % contracts.size()];
                    options.streams = streams;
                    options.chunk_batches = chunk;
                    options.copies = copies;
                    const AttentionCase& test = reference_case({11, 70, 20}, CaseKind::spread, 4, *options.contract);
                    if (!gpu::unsupported_reason(test.problem, "", *options.contract).empty()) continue;
                    EXPECT_TRUE(from_file_to_file(test, options, limits, gpu::make_engine) ==
                                bytes_of(test.expected.data(), test.expected.size()))
                        << options.contract->name << ", " << streams << " streams, " << chunk << " batches, "
                        << name_of(copies) << ", " << limits.piece_bytes;
                }
            }
}

} // namespace
} // namespace hw4
