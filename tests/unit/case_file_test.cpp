#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "src/base/file_descriptor.h"
#include "src/io/case_file.h"
#include "src/io/case_header.h"
#include "src/problem/words.h"
#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

// All data of the file, read `step` batches at a time.
std::vector<float> read_all(const std::string& path, int64_t step = 1) {
    CaseReader reader(path);
    const Problem& problem = reader.problem();
    std::vector<float> data(static_cast<size_t>(problem.batches) * problem.batch_input_floats());
    for (int64_t b = 0; b < problem.batches; b += step)
        reader.read_rows(b * problem.batch_input_rows(),
                         std::min(step, problem.batches - b) * problem.batch_input_rows(),
                         data.data() + static_cast<size_t>(b) * problem.batch_input_floats());
    reader.expect_end();
    return data;
}

std::vector<float> counting(size_t count) {
    std::vector<float> data(count);
    std::iota(data.begin(), data.end(), 0.0f);
    return data;
}

class CaseFile : public ::testing::Test {
protected:
    // The error from reading a file of these bytes to its end, without the file's name.
    Failure said_about(const std::string& bytes) {
        write_file(path_, bytes);
        Failure failure = failure_of([&] { read_all(path_); });
        if (failure.message.rfind(path_ + ": ", 0) == 0) failure.message.erase(0, path_.size() + 2);
        return failure;
    }

    // Passes the bytes to `reader` through a FIFO.
    template <class Reader>
    auto through_fifo(const std::string& bytes, Reader&& reader) {
        EXPECT_EQ(::mkfifo(path_.c_str(), 0600), 0);
        std::thread writer([&] { write_file(path_, bytes); });
        const auto result = reader();
        writer.join();
        return result;
    }

    static Failure bad(const std::string& message) { return {ExitCode::bad_data, message}; }

    TemporaryFolder folder_;
    std::string path_ = folder_ / "a.in";
};

TEST_F(CaseFile, PlainAndGzipGiveTheSameFloatsInAnyChunks) {
    const std::string bytes = counting_case(7, 5, 3);
    const std::string half = bytes.substr(0, 101); // a gzip file may have several members
    for (const std::string& form : {bytes, gzipped(bytes), gzipped(half) + gzipped(bytes.substr(101))}) {
        write_file(path_, form);
        for (const int64_t step : {1, 2, 3, 7}) EXPECT_EQ(read_all(path_, step), counting(7 * 3 * 15)) << step;
    }
}

// 1f 8b, gzip's first two bytes, also begins plain files with these numbers of batches.
TEST_F(CaseFile, PlainFileMayBeginLikeGzip) {
    write_file(path_, counting_case(0x8b1f, 1, 1));
    EXPECT_EQ(read_all(path_, 1000), counting(3 * 0x8b1f));
    write_file(path_, counting_case(0x88b1f, 1, 1));
    EXPECT_EQ(read_all(path_, 1000), counting(3 * 0x88b1f));
}

// A file of exactly the size that its header claims is a case, even where its first bytes mark another format.
TEST_F(CaseFile, TheExactSizeDecidesWhatAPlainFileIs) {
    constexpr int32_t kLikeGzip = 0x01088b1f; // 1f 8b 08, and more batches than 2^24
    constexpr int32_t kLikeZip = 0x04034b50;  // PK 03 04
    for (const int32_t batches : {kLikeGzip, kLikeZip}) {
        const int64_t last = int64_t{3} * batches - 1;
        if (!write_sparse_case(path_, {batches, 1, 1}, {{static_cast<uint64_t>(last), 5.0f}}))
            GTEST_SKIP() << with_errno("no large file, even of holes");
        float found = NAN;
        const auto read_last = [&] {
            CaseReader reader(path_);
            reader.read_rows(last, 1, &found);
            reader.expect_end();
        };
        EXPECT_EQ(failure_of(read_last), Failure{});
        EXPECT_EQ(found, 5.0f);
        ASSERT_EQ(::truncate(path_.c_str(), 12), 0); // with another size its first bytes decide
        EXPECT_EQ(failure_of(read_last).code, ExitCode::bad_data);
    }
}

// A gzip file begins with these three bytes; a shorter file with as many of them as it has.
TEST_F(CaseFile, GzipIsToldByItsThreeBytes) {
    const auto needed = [](int32_t batches) {
        return bad("expected " + std::to_string(12 + 12 * int64_t{batches}) +
                   " bytes for B = " + std::to_string(batches) + ", N = 1, d = 1, got 12: ends in batch 0, Q, row 0");
    };
    for (const int32_t batches : {0x088b1e, 0x088a1f, 0x078b1f, 0x098b1f})
        EXPECT_EQ(said_about(header_bytes(batches, 1, 1)), needed(batches)) << batches;
    for (const std::string& start : {std::string("\x1f\x8b"), std::string("\x1f\x8b\x08")})
        EXPECT_EQ(said_about(start),
                  bad("gzip stream corrupt at byte " + std::to_string(start.size()) + " of the file: unexpected end"));
    for (const std::string& start : {std::string("\x1f"), std::string("\x8b\x1f"), std::string("\x1f\x8b\x09")})
        EXPECT_EQ(said_about(start),
                  bad("header truncated: got " + std::to_string(start.size()) + " of 12 bytes (int32 B, N, d)"));
}

// A header of version 1 does not name the operation: an option does, and the file's size must fit it.
class FourMatrices : public CaseFile {
protected:
    static std::string four(int32_t batches) {
        return counting_case(batches, 3, 4) + std::string(static_cast<size_t>(batches) * 48, '\0');
    }
    Failure asked(const Operation* operation, const std::string& bytes) {
        write_file(path_, bytes);
        return failure_of([&] { CaseReader(path_, operation); });
    }
    Failure bad_file(const std::string& message) const { return {ExitCode::bad_data, path_ + ": " + message}; }
};

TEST_F(FourMatrices, AreReadWhereBackwardIsAskedFor) {
    for (const std::string& bytes : {four(2), gzipped(four(2))}) {
        write_file(path_, bytes);
        CaseReader reader(path_, &kBackward);
        EXPECT_EQ(reader.problem().operation, &kBackward);
        EXPECT_EQ(reader.problem().input_rows(), 2 * 4 * 3);
        std::vector<float> data(2 * 4 * 12);
        reader.read_rows(0, 24, data.data());
        reader.expect_end();
        EXPECT_TRUE(std::equal(data.begin(), data.begin() + 72, counting(72).begin()));
    }
}

TEST_F(FourMatrices, AreToldFromThreeByTheSize) {
    EXPECT_EQ(asked(nullptr, counting_case(2, 3, 4)), Failure{});
    EXPECT_EQ(asked(nullptr, four(2)), bad_file("has four matrices a batch: meant for --backward?"));
    EXPECT_EQ(asked(&kBackward, four(2)), Failure{});
    EXPECT_EQ(asked(&kBackward, counting_case(2, 3, 4)),
              bad_file("has Q, K, V of each batch, --backward needs Q, K, V, dO"));
    EXPECT_EQ(asked(&kBackward, four(2) + "x"), bad_file("expected 396 bytes for B = 2, N = 3, d = 4, got 397"));
    EXPECT_EQ(asked(&kBackward, four(1).substr(0, 160)),
              bad_file("expected 204 bytes for B = 1, N = 3, d = 4, got 160: ends in batch 0, dO, row 0"));
}

TEST_F(FourMatrices, MayBeginLikeGzip) {
    const std::string bytes = counting_case(0x88b1f, 1, 1) + std::string(4 * 0x88b1f, '\0');
    EXPECT_EQ(asked(&kBackward, bytes), Failure{});
    EXPECT_EQ(asked(nullptr, bytes), bad_file("has four matrices a batch: meant for --backward?"));
}

TEST_F(FourMatrices, OfAPipeAreFoundOutAtTheEnd) {
    const auto read = [&] {
        return failure_of([&] {
            CaseReader reader(path_, &kBackward);
            std::vector<float> data(4 * 12);
            reader.read_rows(0, 12, data.data());
        });
    };
    EXPECT_EQ(through_fifo(counting_case(1, 3, 4), read),
              bad_file("expected 204 bytes, got 156: ends in batch 0, dO, row 0"));
}

TEST_F(FourMatrices, AreWhatTheLongHeaderSaysAlone) {
    Problem problem(1, 3, 4);
    const auto file_of = [](const Problem& p) {
        const Bytes header = header_of(p, true);
        return std::string(header.begin(), header.end()) + std::string(p.input_bytes(), '\0');
    };
    EXPECT_EQ(asked(&kBackward, file_of(problem)),
              (Failure{ExitCode::usage, path_ + ": asks for forward, --backward for another operation"}));
    problem.operation = &kBackward;
    EXPECT_EQ(asked(&kBackward, file_of(problem)), Failure{});
    EXPECT_EQ(asked(nullptr, file_of(problem)), Failure{});
}

TEST_F(CaseFile, GivesTheRowsOfAPlainFileInAnyOrder) {
    write_file(path_, counting_case(2, 3, 2)); // 18 rows of 2
    CaseReader reader(path_);
    EXPECT_TRUE(reader.random_access());
    std::vector<float> data(6);
    for (const int64_t first : {15, 0, 7}) {
        reader.read_rows(first, 3, data.data());
        for (size_t i = 0; i < data.size(); ++i)
            EXPECT_EQ(data[i], static_cast<float>(2 * first) + static_cast<float>(i));
    }
    reader.expect_end();
    write_file(path_, gzipped(counting_case(2, 3, 2)));
    EXPECT_FALSE(CaseReader(path_).random_access());
}

// B*N*d is 3*2^30, the data 36 GiB in rows of 4 bytes: offsets whose bytes, floats and rows pass 2^31, 2^32 and 2^33.
TEST_F(CaseFile, FindsRowsBeyond32Bits) {
    const std::array<int32_t, 3> problem = {6, 1 << 29, 1};
    std::vector<std::pair<uint64_t, float>> marks;
    for (const uint64_t place : {uint64_t{1} << 29, uint64_t{1} << 30, uint64_t{1} << 31, uint64_t{1} << 32,
                                 uint64_t{1} << 33, uint64_t{9} << 30})
        marks.emplace_back(place - 1, static_cast<float>(marks.size() + 1));
    if (!write_sparse_case(path_, problem, marks)) GTEST_SKIP() << with_errno("no file of 36 GiB, even of holes");
    CaseReader reader(path_);
    for (const auto& [row, value] : marks) {
        float found[2] = {NAN, NAN};
        reader.read_rows(static_cast<int64_t>(row) - 1, 2, found);
        EXPECT_EQ(found[0], 0.0f) << row;
        EXPECT_EQ(found[1], value) << row;
    }
    reader.expect_end();
}

TEST_F(CaseFile, GivesUpWaitingForAPipe) {
    const Failure failure = through_fifo(header_bytes(1, 1, 1), [&] {
        CaseReader reader(path_);
        EXPECT_FALSE(reader.random_access());
        const FileDescriptor keeps_it_open(::open(path_.c_str(), O_WRONLY));
        std::vector<float> data(3);
        std::thread other([&] { reader.give_up(); });
        const Failure said = failure_of([&] { reader.read_rows(0, 3, data.data()); });
        other.join();
        return said;
    });
    EXPECT_EQ(failure, (Failure{ExitCode::io_error, path_ + ": reading was given up"}));
}

TEST_F(CaseFile, NoticesAFileThatChangesWhileItIsRead) {
    const std::string bytes = counting_case(2, 3, 2);
    std::vector<float> data(36);
    write_file(path_, bytes);
    CaseReader shrinking(path_);
    shrinking.read_rows(0, 9, data.data());
    ASSERT_EQ(::truncate(path_.c_str(), 100), 0);
    EXPECT_EQ(failure_of([&] { shrinking.read_rows(9, 9, data.data()); }),
              (Failure{ExitCode::io_error, path_ + ": file changed during read: expected 156 bytes, got 100: ends in "
                                                   "batch 1, Q, row 2"}));
    write_file(path_, bytes);
    CaseReader growing(path_);
    write_file(path_, bytes + "x");
    growing.read_rows(0, 18, data.data());
    EXPECT_EQ(failure_of([&] { growing.expect_end(); }),
              (Failure{ExitCode::io_error, path_ + ": file changed during read: data goes on after the last batch, "
                                                   "expected 156 bytes"}));
}

// Only the file's time of modification changes: its seconds, or its nanoseconds alone.
TEST_F(CaseFile, NoticesAFileThatIsWrittenToInPlace) {
    const auto set_time = [&](timespec time) {
        const timespec times[] = {{0, UTIME_OMIT}, time};
        ASSERT_EQ(::utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
    };
    const std::string bytes = counting_case(2, 3, 2);
    write_file(path_, bytes);
    set_time({1000, 501});
    struct stat kept {};
    ASSERT_EQ(::stat(path_.c_str(), &kept), 0);
    if (kept.st_mtim.tv_nsec != 501) GTEST_SKIP() << "the file system keeps no nanoseconds";
    const Failure written{ExitCode::io_error, path_ + ": file changed during read: it was written to"};
    for (const std::string& form : {bytes, gzipped(bytes)})
        for (const timespec time : {timespec{1000, 500}, timespec{1000, 501}, timespec{1001, 500}}) {
            write_file(path_, form);
            set_time({1000, 500});
            CaseReader reader(path_);
            std::vector<float> data(36);
            reader.read_rows(0, 18, data.data());
            set_time(time);
            const bool same = time.tv_sec == 1000 && time.tv_nsec == 500;
            EXPECT_EQ(failure_of([&] { reader.expect_end(); }), same ? Failure{} : written)
                << time.tv_sec << " " << time.tv_nsec;
        }
    // The file is cut after all of it was read, and its time is put back.
    write_file(path_, bytes);
    set_time({1000, 500});
    CaseReader reader(path_);
    std::vector<float> data(36);
    reader.read_rows(0, 18, data.data());
    ASSERT_EQ(::truncate(path_.c_str(), 20), 0);
    set_time({1000, 500});
    EXPECT_EQ(failure_of([&] { reader.expect_end(); }), written);
}

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
