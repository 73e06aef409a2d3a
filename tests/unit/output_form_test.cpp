#include "src/io/npy.h"

#include <zlib.h>

#include "src/io/output_file.h"
#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

// Reads the file to its end with zlib's own reader.
std::string unpacked(const std::string& path) {
    const gzFile file = ::gzopen(path.c_str(), "rb");
    std::string bytes;
    std::array<char, 4096> some{};
    for (int got = 0; (got = ::gzread(file, some.data(), some.size())) > 0;)
        bytes.append(some.data(), static_cast<size_t>(got));
    EXPECT_EQ(::gzdirect(file), 0) << "not compressed";
    EXPECT_EQ(::gzclose(file), Z_OK);
    return bytes;
}

TEST(OutputForm, IsWhatTheNameSays) {
    const Problem problem(2, 5, 4);
    const Bytes head = npy_header_of({2, 5, 4});
    for (const auto& [name, gzip, npy] : {std::tuple("a.out", false, false),
                                          {"a.gz", true, false},
                                          {"a.npy", false, true},
                                          {"a.npy.gz", true, true},
                                          {"-", false, false},
                                          {".gz", false, false},
                                          {"a.gz/b", false, false},
                                          {"agz", false, false}}) {
        const OutputForm form = form_of_output(name, problem);
        EXPECT_EQ(form.gzip, gzip) << name;
        EXPECT_EQ(form.head, npy ? head : Bytes()) << name;
    }
}

TEST(OutputForm, HeadsAreASizeOfTheirOwn) {
    Problem problem(2, 5, 4);
    for (const int64_t heads : {2, 6}) {
        problem.heads = heads;
        EXPECT_EQ(form_of_output("a.npy", problem).head, npy_header_of({2, heads, 5, 4}));
        EXPECT_EQ(form_of_rows("a.npy", problem).head, npy_header_of({2, heads, 5}));
    }
    EXPECT_EQ(form_of_rows("a.npy", Problem(2, 5, 4)).head, npy_header_of({2, 5}));
}

class FormedOutput : public ::testing::Test {
protected:
    InterruptGuard interrupts_;
    TemporaryFolder folder_;
    std::string path_ = folder_ / "a";
};

TEST_F(FormedOutput, HeadStandsBeforeWhatIsWrittenAnywhere) {
    OutputFile file(path_, interrupts_, {false, {'h', 'e', 'a', 'd'}});
    ASSERT_TRUE(file.random_access());
    file.reserve(6);
    file.write_at(3, "two", 3);
    file.write_at(0, "one", 3);
    file.commit(false);
    EXPECT_EQ(read_file(path_), "headonetwo");
}

TEST_F(FormedOutput, GzipIsWrittenInOrder) {
    OutputFile file(path_, interrupts_, {true, {'h', 'e', 'a', 'd'}});
    EXPECT_FALSE(file.random_access());
    file.write(" one", 4);
    file.write("", 0);
    file.write(" two", 4);
    file.commit(true);
    EXPECT_EQ(unpacked(path_), "head one two");
}

// Noise does not compress: every buffer is filled many times.
TEST_F(FormedOutput, GzipDoesNotDependOnHowItWasCut) {
    std::string noise(1500000, '\0');
    uint32_t state = 1;
    for (char& c : noise) c = static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
    std::string whole;
    for (const size_t step : {noise.size(), size_t{99991}, size_t{4096}}) {
        OutputFile file(path_, interrupts_, {true, {}});
        for (size_t at = 0; at < noise.size(); at += step)
            file.write(noise.data() + at, std::min(step, noise.size() - at));
        file.commit(false);
        EXPECT_EQ(unpacked(path_), noise);
        if (whole.empty()) whole = read_file(path_);
        EXPECT_EQ(read_file(path_), whole) << step;
    }
}

} // namespace
} // namespace hw4
