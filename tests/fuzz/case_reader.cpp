// Takes any bytes as an input file: they must be refused in one line, or give the same floats however they are read.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <vector>

#include "src/base/error.h"
#include "src/base/file_descriptor.h"
#include "src/contracts/contract.h"
#include "src/io/case_file.h"
#include "src/io/file_rows.h"
#include "src/problem/domain.h"
#include "src/run/staging_plan.h"
#include "tests/fuzz/targets.h"

namespace hw4::fuzz {
namespace {

constexpr size_t kLongestMessage = 400;
constexpr size_t kMuch = size_t{64} << 10; // unpacked bytes; larger cases take long, so they are read once

// A failed system call ends the fuzzer: without its files it cannot test anything.
int checked(int result, const char* call) {
    if (result < 0) throw std::runtime_error(with_errno(call));
    return result;
}

std::string name_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

void write_all(int fd, const std::string& bytes) {
    for (size_t done = 0; done < bytes.size();) {
        const ssize_t step = ::write(fd, bytes.data() + done, bytes.size() - done);
        checked(step < 0 ? -1 : 0, "write");
        done += static_cast<size_t>(step);
    }
}

// A regular file that exists only in memory.
FileDescriptor file_of(const std::string& bytes) {
    FileDescriptor file(checked(::memfd_create("fuzz", MFD_CLOEXEC), "memfd_create"));
    write_all(file.get(), bytes);
    return file;
}

// The read end of a pipe that contains the bytes and has no writer; not valid where the bytes do not fit.
FileDescriptor pipe_of(const std::string& bytes) {
    int ends[2];
    checked(::pipe2(ends, O_CLOEXEC), "pipe2");
    FileDescriptor from(ends[0]);
    const FileDescriptor to(ends[1]);
    if (bytes.size() > static_cast<size_t>(checked(::fcntl(to.get(), F_GETPIPE_SZ), "F_GETPIPE_SZ"))) return {};
    write_all(to.get(), bytes);
    return from;
}

// Memory for the longest row that a header can claim; only the pages that are read into become real memory.
float* room() {
    static void* const memory = [] {
        constexpr size_t kBytes = size_t{9} << 30;
        void* mapped =
            ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapped == MAP_FAILED) throw std::bad_alloc();
        return mapped;
    }();
    return static_cast<float*>(memory);
}

struct Outcome;
Bytes header_bytes_of(const Outcome& outcome);

struct Outcome {
    bool accepted = false;
    bool plain_file = false;
    std::string message; // the reason for a refusal
    CaseHeader header;
    std::vector<int32_t> lengths;
    std::string data;      // everything after the header and the lengths, as float32 in memory
    size_t bytes_read = 0; // also counts a case that was refused
    size_t claimed = 0;    // by the header

    bool same_case(const Outcome& other) const {
        return accepted == other.accepted && header_bytes_of(*this) == header_bytes_of(other) &&
               lengths == other.lengths && data == other.data;
    }
};

Bytes header_bytes_of(const Outcome& outcome) {
    const Problem& problem = outcome.header.problem;
    return outcome.header.form == HeaderForm::version_2 ? header_of(problem, true) : short_header_of(problem);
}

// Reads as the pipeline does: in pieces of whole rows, each checked alone, with the findings joined in order. A plain
// file may be read from its end.
void read_pieces(CaseReader& reader, const StagingLimits& limits, bool backwards, Outcome& outcome) {
    outcome.header = reader.header();
    const Problem& problem = reader.problem();
    if (reader.lengths() != nullptr) outcome.lengths.assign(reader.lengths(), reader.lengths() + problem.batches);
    const StagingPlan plan = plan_staging(problem, reader.random_access(), true, limits);
    DomainCheck domain(reader.path(), problem, kF32.domain);
    const int64_t pieces = (problem.input_rows() + plan.piece_rows - 1) / plan.piece_rows;
    const auto read = [&](int64_t piece) {
        const int64_t first = piece * plan.piece_rows;
        const int64_t rows = std::min(plan.piece_rows, problem.input_rows() - first);
        const size_t bytes = static_cast<size_t>(rows) * problem.row_bytes();
        reader.read_rows(first, rows, room());
        outcome.bytes_read += bytes;
        const size_t at = static_cast<size_t>(first) * problem.row_bytes();
        if (outcome.data.size() < at + bytes) outcome.data.resize(at + bytes);
        std::memcpy(outcome.data.data() + at, room(), bytes);
        return domain.examine(first, rows, room());
    };
    if (backwards && reader.random_access()) {
        std::vector<Findings> found(static_cast<size_t>(pieces)); // the file is that large: its size was checked
        for (int64_t piece = pieces; piece-- > 0;) found[static_cast<size_t>(piece)] = read(piece);
        for (const Findings& findings : found) domain.join(findings);
    } else {
        for (int64_t piece = 0; piece < pieces; ++piece) domain.join(read(piece));
    }
    reader.expect_end();
}

void expect_refusal(const Error& error, const std::string& path, const Operation* asked) {
    const std::string message = error.what();
    const bool asked_in_vain =
        asked != nullptr && (message == path + ": asks for forward, --backward for another operation" ||
                             message.rfind(path + ": a .npy file has Q, K, V of each batch, --backward", 0) == 0);
    expect(error.code() == (asked_in_vain ? ExitCode::usage : ExitCode::bad_data),
           "exit code " + std::to_string(static_cast<int>(error.code())) + " for bytes that do not change: " + message);
    expect(message.rfind(path + ": ", 0) == 0, "a message that does not begin with the file: " + message);
    expect(message.size() > path.size() + 2 && message.size() < kLongestMessage, "no message, or a very long one");
    expect(std::none_of(message.begin(), message.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }),
           "a message that is not one plain line: " + message);
}

Outcome outcome_of(const std::string& path, const Operation* asked, const StagingLimits& limits, bool backwards) {
    Outcome outcome;
    try {
        CaseReader reader(path, asked);
        outcome.plain_file = reader.random_access();
        outcome.claimed = reader.problem().input_bytes();
        read_pieces(reader, limits, backwards, outcome);
        outcome.accepted = true;
    } catch (const Error& error) {
        expect_refusal(error, path, asked);
        outcome.message = error.what();
        outcome.header = {};
        outcome.lengths.clear();
        outcome.data.clear();
    }
    return outcome;
}

bool all_finite(const std::string& data) {
    for (size_t at = 0; at < data.size(); at += sizeof(float)) {
        float x;
        std::memcpy(&x, data.data() + at, sizeof x);
        if (!std::isfinite(x)) return false;
    }
    return true;
}

std::string as_plain_file(const Outcome& outcome) {
    const Bytes header = header_bytes_of(outcome);
    Problem problem = outcome.header.problem;
    const Element element = problem.element;
    problem.element = Element::float32;
    std::string data;
    each_in_file(problem, problem.operation->inputs, 0, problem.input_rows(), outcome.data.data(),
                 [&](uint64_t, const void* some, size_t bytes) { data.append(static_cast<const char*>(some), bytes); });
    std::vector<float> numbers(data.size() / sizeof(float));
    std::memcpy(numbers.data(), data.data(), data.size());
    std::string stored(numbers.size() * bytes_of(element), '\0');
    narrow(element, numbers.data(), numbers.size(), stored.data());
    const std::string lengths(reinterpret_cast<const char*>(outcome.lengths.data()),
                              outcome.lengths.size() * sizeof(int32_t));
    return std::string(header.begin(), header.end()) + lengths + stored;
}

bool check_reading(const std::string& bytes, const Operation* asked) {
    constexpr StagingLimits kUsual;

    const FileDescriptor file = file_of(bytes);
    const Outcome whole = outcome_of(name_of(file.get()), asked, kUsual, false);
    if (whole.bytes_read > kMuch) return whole.accepted;
    const size_t piece = whole.claimed > kMuch ? 4096 : 64; // a few rows, or one
    const StagingLimits small = {3, 2, piece, 3 * piece};
    const Outcome cut = outcome_of(name_of(file.get()), asked, small, true);
    expect(whole.same_case(cut), "the way a file is cut shows: '" + whole.message + "', '" + cut.message + "'");
    // Where a gzip stream breaks off or has a refused value, small pieces may meet the other fault first.
    if (whole.plain_file) expect(whole.message == cut.message, whole.message + " or " + cut.message);
    if (whole.accepted) expect(all_finite(whole.data), "NaN or Inf was accepted");
    if (whole.accepted && whole.plain_file && whole.header.form == HeaderForm::npy)
        expect(bytes.substr(whole.header.bytes) == whole.data, "an array was read as another");
    else if (whole.accepted && whole.plain_file)
        expect(as_plain_file(whole) == bytes, "a plain file was read as another");

    // A gzip file holds the same case as a plain file.
    if (whole.accepted && !whole.plain_file) {
        const FileDescriptor unpacked = file_of(as_plain_file(whole));
        expect(outcome_of(name_of(unpacked.get()), asked, kUsual, false).same_case(whole), "gzip and plain differ");
    }

    // A plain file may begin like gzip; its size tells them apart. A pipe has no size.
    const bool marked = bytes.compare(0, 2, "\x1f\x8b") == 0;
    if (whole.plain_file && marked) return whole.accepted;
    const FileDescriptor pipe = pipe_of(bytes);
    if (!pipe.valid()) return whole.accepted;
    const Outcome piped = outcome_of(name_of(pipe.get()), asked, small, false);
    expect(piped.same_case(whole), "a pipe and a file differ: '" + piped.message + "', '" + whole.message + "'");
    return whole.accepted;
}

} // namespace

bool case_reader(const uint8_t* data, size_t size) {
    const std::string bytes(data, data + size);
    const bool is_forward = check_reading(bytes, nullptr);
    return check_reading(bytes, &kBackward) || is_forward;
}

} // namespace hw4::fuzz

// libFuzzer's entry point.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    hw4::fuzz::case_reader(data, size);
    return 0;
}
