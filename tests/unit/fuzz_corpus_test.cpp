// Every file of the corpus that make_corpus writes, once: what was wrong with one of them stays mended.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/fuzz/targets.h"
#include "tests/support/temporary_folder.h"

namespace hw4::fuzz {
namespace {

void run_corpus(const std::string& name, void (*target)(const uint8_t*, size_t)) {
    const auto folder = std::filesystem::path(__FILE__).parent_path().parent_path() / "fuzz" / "corpus" / name;
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const std::string bytes = test::read_file(entry.path().string());
        EXPECT_NO_THROW(target(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size())) << entry.path();
        ++files;
    }
    EXPECT_GE(files, 10) << "the corpus is not there";
}

TEST(FuzzCorpus, CaseReader) { run_corpus("case_reader", case_reader); }
TEST(FuzzCorpus, CommandLine) { run_corpus("command_line", command_line); }
TEST(FuzzCorpus, Kernels) { run_corpus("kernels", kernels); }

} // namespace
} // namespace hw4::fuzz
