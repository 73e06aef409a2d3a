// Reads every file of make_corpus once: a fault that one of them has found must not return.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/fuzz/targets.h"
#include "tests/support/temporary_folder.h"

namespace hw4::fuzz {
namespace {

TEST(FuzzCorpus, CaseReader) {
    const auto folder = std::filesystem::path(__FILE__).parent_path().parent_path() / "fuzz/corpus/case_reader";
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const std::string bytes = test::read_file(entry.path().string());
        EXPECT_NO_THROW(case_reader(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size())) << entry.path();
        ++files;
    }
    EXPECT_GE(files, 10) << "the corpus is not there";
}

} // namespace
} // namespace hw4::fuzz
