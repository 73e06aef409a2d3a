#include <fcntl.h>
#include <zlib.h>

#include "src/io/npy.h"
#include "src/io/output_file.h"
#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

class Output : public ::testing::Test {
protected:
    void put(const std::string& path, const std::string& text, bool sync = false) {
        OutputFile file(path, interrupts_);
        file.write(text.data(), text.size());
        file.commit(sync);
    }

    InterruptGuard interrupts_;
    TemporaryFolder folder_;
    std::string path_ = folder_ / "a.out";
};

TEST_F(Output, AppearsOnlyWhenComplete) {
    {
        OutputFile file(path_, interrupts_);
        file.write("one", 3);
        EXPECT_FALSE(fs::exists(path_));
        file.write("", 0);
        file.write(" two", 4);
        EXPECT_EQ(folder_.names().size(), 1u);
        file.commit(false);
        EXPECT_EQ(folder_.names(), Names{"a.out"});
    }
    EXPECT_EQ(folder_.names(), Names{"a.out"});
    EXPECT_EQ(read_file(path_), "one two");
}

TEST_F(Output, TakesPartsOfOthersUntilItIsPublished) {
    const OutputForm form{false, {'h', 'e', 'a', 'd'}};
    {
        OutputFile file(path_, interrupts_, form);
        OutputFile others(path_, file.temporary(), form);
        EXPECT_TRUE(others.random_access());
        file.write_at(0, "one ", 4);
        others.write_at(4, "two", 3);
        others.finish(true);
        others.publish(true);
        EXPECT_FALSE(fs::exists(path_));
        file.commit(false);
    }
    EXPECT_EQ(read_file(path_), "headone two");
    EXPECT_EQ(folder_.names(), Names{"a.out"});
}

TEST_F(Output, OfOthersIsToBeSeenAndTheSameFile) {
    OutputFile file(path_, interrupts_);
    const OutputFile::Temporary made = file.temporary();
    const auto failure = [&](const OutputFile::Temporary& seen) {
        return failure_of([&] { OutputFile(path_, seen, {}); });
    };
    const std::string none = folder_ / "none";
    EXPECT_EQ(failure({none, made.inode}),
              (Failure{ExitCode::cannot_create, path_ + ": cannot open " + none +
                                                    ", which the first rank has made: No such file or directory"}));
    EXPECT_EQ(failure({made.path, made.inode + 1}),
              (Failure{ExitCode::cannot_create, path_ + ": " + made.path + " is another file here than for the first " +
                                                    "rank, need a shared one"}));
}

TEST_F(Output, TakesPartsBeyond4GiB) {
    constexpr uint64_t kPlace = (uint64_t{1} << 33) + 3;
    {
        OutputFile file(path_, interrupts_);
        const Failure failure = failure_of([&] { file.write_at(kPlace, "end", 3); });
        if (failure.code == ExitCode::io_error) GTEST_SKIP() << "no file of 8 GiB, even of holes: " << failure.message;
        file.write_at(0, "start", 5);
        file.commit(false);
    }
    EXPECT_EQ(fs::file_size(path_), kPlace + 3);
    std::ifstream file(path_, std::ios::binary);
    char text[6] = {};
    file.read(text, 5);
    EXPECT_STREQ(text, "start");
    file.seekg(static_cast<std::streamoff>(kPlace));
    file.read(text, 3);
    EXPECT_EQ(std::string(text, 3), "end");
}

// Keeps a file of a killed run, and a link to another file.
TEST_F(Output, LeavesFilesUnderItsTemporaryNames) {
    const std::string start = path_ + ".hw4-" + std::to_string(::getpid());
    write_file(start + "-0.tmp", "left");
    fs::create_symlink(start + "-0.tmp", start + "-1.tmp");
    put(path_, "new");
    EXPECT_EQ(read_file(path_), "new");
    EXPECT_EQ(read_file(start + "-0.tmp"), "left");
    EXPECT_EQ(folder_.names().size(), 3u);
}

TEST_F(Output, NewFileFollowsTheUmask) {
    const mode_t before = ::umask(027);
    put(path_, "new");
    ::umask(before);
    EXPECT_EQ(mode_of(path_), 0640u);
}

// Set-user-id and similar bits are not kept. The test writes nothing: a write would clear them, except for root.
TEST_F(Output, KeepsTheModeOfTheOldFile) {
    const mode_t before = ::umask(077);
    for (const mode_t mode : {0600u, 0664u, 07755u}) {
        write_file(path_, "old");
        ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
        put(path_, "");
        EXPECT_EQ(mode_of(path_), mode & 0777);
    }
    ::umask(before);
}

TEST_F(Output, WritesBehindALink) {
    fs::create_directory(folder_ / "deep");
    write_file(folder_ / "deep/real", "old");
    fs::create_symlink("deep/real", folder_ / "near");
    fs::create_symlink("near", path_);
    put(path_, "new");
    EXPECT_TRUE(fs::is_symlink(path_));
    EXPECT_TRUE(fs::is_symlink(folder_ / "near"));
    EXPECT_EQ(read_file(folder_ / "deep/real"), "new");
}

// The links in /proc lead to the open file itself, and show only the name that it had.
TEST_F(Output, ByDescriptorReplacesTheNameIfThereIsOne) {
    write_file(path_, "old");
    const FileDescriptor opened(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    const std::string name = "/proc/self/fd/" + std::to_string(opened.get());
    put(name, "new");
    EXPECT_EQ(read_file(path_), "new");
    EXPECT_EQ(failure_of([&] { OutputFile file(name, interrupts_); }),
              (Failure{ExitCode::cannot_create,
                       name + ": cannot replace the file behind it, which is not at " + path_ + " (deleted)"}));
    EXPECT_EQ(folder_.names(), Names{"a.out"});
}

class Growing : public Output {};

TEST_F(Growing, IsCompleteAfterEachPart) {
    write_file(path_, "old");
    GrowingFile file(path_, interrupts_);
    EXPECT_EQ(read_file(path_), "old");
    file.begin("[1", "]");
    EXPECT_EQ(read_file(path_), "[1]");
    file.add(", 2");
    EXPECT_EQ(read_file(path_), "[1, 2]");
    file.add("");
    file.add(", 3");
    file.finish();
    EXPECT_EQ(read_file(path_), "[1, 2, 3]");
    EXPECT_EQ(folder_.names(), Names{"a.out"});
}

TEST_F(Growing, AFifoGetsAllAtTheEnd) {
    ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
    std::string got;
    std::thread reader([&] { got = read_file(path_); });
    GrowingFile file(path_, interrupts_);
    file.begin("[1", "]");
    file.add(", 2");
    file.finish();
    reader.join();
    EXPECT_EQ(got, "[1, 2]");
}

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

Bytes bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

// A header with this text, as another program might write it.
Bytes header_with(const std::string& words) {
    std::string header("\x93NUMPY\1\0", 8);
    header += static_cast<char>(words.size() % 256);
    header += static_cast<char>(words.size() / 256);
    return bytes_of(header + words);
}

std::string words_of(const std::string& element, const std::string& order, const std::string& shape) {
    return "{'descr': " + element + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

Failure said_of(const std::string& words) {
    return failure_of([&] { parse_npy_header("a.npy", header_with(words)); });
}

Failure bad(const std::string& what) { return {ExitCode::bad_data, "a.npy: is a NumPy .npy file " + what}; }

TEST(Npy, IsToldByItsFirstBytes) {
    EXPECT_TRUE(is_npy(header_with("{}")));
    EXPECT_FALSE(is_npy(bytes_of("\x93NUMPX\1")));
    EXPECT_FALSE(is_npy(bytes_of("\x93NUMPY\1")));
}

TEST(Npy, HeaderThatNumpyWrites) {
    const Bytes header = npy_header_of({2, 5, 4});
    const std::string words = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 5, 4), }";
    std::string expected("\x93NUMPY\1\0\x76\0", 10);
    expected += words + std::string(118 - words.size() - 1, ' ') + "\n";
    EXPECT_EQ(header, bytes_of(expected));
    EXPECT_EQ(npy_header_bytes("a.npy", header), header.size());
}

TEST(Npy, WordsInAnyOrderAndLayout) {
    const CaseHeader header =
        parse_npy_header("a.npy", header_with("{'shape':(7,3 , 2,1,) , 'fortran_order' : False,'descr':'<f4'}"));
    EXPECT_EQ(header.problem.batches, 7);
    EXPECT_EQ(header.problem.queries, 2);
    EXPECT_EQ(header.problem.dim, 1);
}

TEST(Npy, RefusesOtherArrays) {
    const std::string shape = "(2, 3, 5, 4)";
    EXPECT_EQ(said_of(words_of("'<f8'", "False", shape)), bad("with elements '<f8', need '<f4': array.astype('<f4')"));
    EXPECT_EQ(said_of(words_of("'>f4'", "False", shape)), bad("with elements '>f4', need '<f4': array.astype('<f4')"));
    EXPECT_EQ(said_of(words_of("'<f4'", "True", shape)),
              bad("with fortran_order True, need False: numpy.ascontiguousarray(array)"));
    for (const std::string other : {"(2, 4, 5, 4)", "(3, 5, 4)", "(2, 3, 0, 4)", "()", "(2, 3, 5, 4, 1)", "(,)", "12",
                                    "(2, 3, 5, -4)", "(2, 3, 5, 2147483648)", "(2, 3, 5, 4x)"})
        EXPECT_EQ(said_of(words_of("'<f4'", "False", other)),
                  bad("of shape " + other + ", need (B, 3, N, d): Q, K, V of each batch"));
}

TEST(Npy, OutputsOfAnotherShape) {
    const auto said = [](const std::string& shape) {
        return failure_of([&] {
            require_npy_like("a.npy", header_with(words_of("'<f4'", "False", shape)), npy_header_of({2, 5, 4}));
        });
    };
    EXPECT_NO_THROW(
        require_npy_like("a.npy", header_with(words_of("'<f4'", "False", "(2,5,4)")), npy_header_of({2, 5, 4})));
    for (const std::string other : {"(2, 5, 5)", "(2, 5)", "(2, 5, 4, 1)", "(40,)", "12"})
        EXPECT_EQ(said(other), bad("of shape " + other + ", need (2, 5, 4)"));
}

TEST(Npy, ALongHeader) {
    std::string words = words_of("'<f4'", "False", "(2, 3, 5, 4)");
    words.resize(2 * 256 + 64 - 10, ' ');
    const Bytes header = header_with(words);
    EXPECT_EQ(npy_header_bytes("a.npy", header), header.size());
    EXPECT_EQ(parse_npy_header("a.npy", header).bytes, header.size());
}

// NumPy also refuses the first header, and headers with an unknown key.
TEST(Npy, RefusesADictionaryThatIsNotClosed) {
    const std::string good = words_of("'<f4'", "False", "(2, 3, 5, 4)");
    const std::string open = good.substr(0, good.find('}'));
    for (const std::string& words :
         {open, open + "\n", good.substr(0, good.find(", }")), good.substr(0, good.find(')'))})
        EXPECT_EQ(said_of(words), bad("whose header has no closing brace")) << words;
    EXPECT_EQ(said_of(good + "x"), bad("whose header goes on after its closing brace"));
    EXPECT_EQ(said_of(open + "x}"), bad("whose header has x} where a key should be"));
    EXPECT_EQ(said_of(open + "'other': 1}"), bad("whose header has 'other': 1} where a key should be"));
}

// NumPy takes the last value.
TEST(Npy, RefusesAKeyThatIsThereTwice) {
    const std::string good = words_of("'<f4'", "False", "(2, 3, 5, 4)");
    for (const std::string entry : {"'shape': (2, 3, 5, 4)", "\"shape\": (9,)"})
        EXPECT_EQ(said_of(good.substr(0, good.find('}')) + entry + "}"), bad("whose header has 'shape' twice"));
    EXPECT_EQ(said_of("{'descr': '<f8', " + good.substr(1)), bad("whose header has 'descr' twice"));
}

TEST(Npy, ElementsOfAnOutput) {
    const Bytes narrow = npy_header_of({2, 5}, Element::fp16);
    EXPECT_NO_THROW(require_npy_like("a.npy", narrow, narrow));
    EXPECT_EQ(failure_of([&] {
                  require_npy_like("a.npy", npy_header_of({2, 5}), narrow);
              }),
              bad("with elements '<f4', need '<f2': array.astype('<f2')"));
}

} // namespace
} // namespace hw4
