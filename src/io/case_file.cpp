#include "src/io/case_file.h"

#include <sys/stat.h>
#include <zlib.h>

#include <cctype>
#include <limits>

#include "src/base/error.h"
#include "src/base/standard_streams.h"
#include "src/io/file_rows.h"
#include "src/io/gzip.h"
#include "src/io/npy.h"
#include "src/problem/words.h"

namespace hw4 {
namespace {

constexpr unsigned kMaxDeflateRatio = 1032; // deflate's best case: bounds a gzip file's content
constexpr uint64_t kSamples = 32;           // compared by ranks
constexpr uint64_t kSampleBytes = 4096;

[[noreturn]] void bad_data(const std::string& path, const std::string& what) {
    throw Error(ExitCode::bad_data, path + ": " + what);
}

[[noreturn]] void fail_changed(const std::string& path, const std::string& how) {
    throw Error(ExitCode::io_error, path + ": file changed during read: " + how);
}

// Refuses files of other formats that users pass by mistake.
void refuse_other_formats(const std::string& path, const std::vector<unsigned char>& raw) {
    const std::string start(raw.begin(), raw.end());
    const std::string layout = "; need int32 B, N, d, then float32 Q, K, V of each batch";
    if (start.compare(0, 4, "PK\x03\x04") == 0) bad_data(path, "is a zip archive (.npz or .pt?)" + layout);
    const bool text = std::all_of(raw.begin(), raw.end(),
                                  [](unsigned char c) { return std::isprint(c) != 0 || std::isspace(c) != 0; });
    if (text) bad_data(path, "is a text file" + layout);
}

// A file's size; unknown for a pipe.
struct StoredSize {
    bool known;
    int64_t bytes;
};

Bytes read_up_to(ByteSource& source, size_t size) {
    Bytes bytes(size);
    bytes.resize(source.read(bytes.data(), size));
    return bytes;
}

CaseHeader for_operation(CaseHeader header, const Operation& operation) {
    header.problem.operation = &operation;
    return header;
}

// The operation for which a file of version 1 has the right size, if any.
const Operation* operation_of_size(const CaseHeader& header, int64_t bytes) {
    for (const Operation* operation : kOperations)
        if (file_bytes(for_operation(header, *operation)) == static_cast<Wide>(bytes)) return operation;
    return nullptr;
}

// Whether header and size agree. The file is a plain case then: B may begin with the bytes that mark a gzip file or
// another format.
bool is_whole_case(const Bytes& start, StoredSize stored) {
    if (!stored.known || start.size() != kShortHeaderBytes) return false;
    if (header_bytes(start) != kShortHeaderBytes) return true; // no other format begins so
    try {
        return operation_of_size(parse_header("", start), stored.bytes) != nullptr;
    } catch (const Error&) {
        return false;
    }
}

bool is_marked_gzip(const Bytes& start) {
    return start.size() >= 2 && start[0] == 0x1f && start[1] == 0x8b && (start.size() == 2 || start[2] == 8);
}

void refuse_no_header(const std::string& path, const Bytes& start, size_t needed) {
    if (start.empty()) bad_data(path, "is empty, need a 12-byte header (int32 B, N, d)");
    if (start.size() < needed)
        bad_data(path, "header truncated: got " + std::to_string(start.size()) + " of " + std::to_string(needed) +
                           (needed == kShortHeaderBytes ? " bytes (int32 B, N, d)"
                            : is_npy(start)             ? " bytes (.npy)"
                                                        : " bytes (16 int32, version 2)"));
}

// Reads the rest of a header that begins so.
void read_header_on(const std::string& path, ByteSource& source, size_t header_size, Bytes& start) {
    if (start.size() == kShortHeaderBytes && header_size > kShortHeaderBytes) {
        const Bytes rest = read_up_to(source, header_size - kShortHeaderBytes);
        start.insert(start.end(), rest.begin(), rest.end());
    }
    refuse_no_header(path, start, header_size);
}

Bytes npy_header_in(const std::string& path, ByteSource& source) {
    Bytes start = read_up_to(source, kShortHeaderBytes);
    if (is_marked_gzip(start)) throw Error(ExitCode::usage, path + ": is gzip, need a plain .npy file");
    if (!is_npy(start)) bad_data(path, "is no NumPy .npy file");
    read_header_on(path, source, npy_header_bytes(path, start), start);
    return start;
}

// Applies an option's operation.
void take_asked(const std::string& path, CaseHeader& header, const Operation* asked) {
    if (asked == nullptr || header.problem.operation == asked) return;
    if (header.form == HeaderForm::npy)
        throw Error(ExitCode::usage, path + ": a .npy file has Q, K, V of each batch, --" + asked->name +
                                         " needs one that begins with B, N, d");
    if (header.form == HeaderForm::version_2)
        throw Error(ExitCode::usage, path + ": asks for " + header.problem.operation->name + ", --" + asked->name +
                                         " for another operation");
    header = for_operation(header, *asked);
}

// The size of a file of version 1 tells its operation; its header does not.
void refuse_other_operation(const std::string& path, const CaseHeader& header, StoredSize stored) {
    if (header.form != HeaderForm::version_1) return;
    const Operation* const meant = operation_of_size(header, stored.bytes);
    if (meant == &kForward) bad_data(path, "has Q, K, V of each batch, --backward needs Q, K, V, dO");
    if (meant == &kBackward) bad_data(path, "has four matrices a batch: meant for --backward?");
}

constexpr Wide kMostBytes = static_cast<Wide>(std::numeric_limits<int64_t>::max());

// Whether an int64 can count the bytes of the case's rows in memory. Where d and d_v differ, rows have more columns in
// memory than in files. All inputs and outputs together have at most 32 bytes per column of a row.
bool fits_memory(const Problem& problem) {
    const Wide rows = Wide(problem.batches) * Wide(problem.heads) * Wide(std::max(problem.queries, problem.keys));
    return !problem.is_padded() || rows * Wide(problem.dim) * 32 <= kMostBytes;
}

void refuse_wrong_size(const std::string& path, const Bytes& start, const CaseHeader& h, StoredSize stored, bool gzip) {
    const Wide expected = file_bytes(h);
    const auto got = static_cast<Wide>(stored.bytes);
    const std::string needs = "header: " + describe(h) + " needs " + decimal(expected) + " bytes";
    const bool wrong = stored.known && !gzip && expected != got;
    if (wrong) refuse_other_operation(path, h, stored);
    const bool may_be_swapped = h.form != HeaderForm::npy;
    const CaseHeader other = for_operation(may_be_swapped ? swapped_header(start) : CaseHeader(), *h.problem.operation);
    if (wrong && other.problem.batches > 0 && file_bytes(other) == got)
        bad_data(path, "is big-endian (its size fits " + describe(other) + "); need little-endian");
    const bool may_be_wider = h.form != HeaderForm::npy && h.problem.element == Element::float32;
    if (wrong && may_be_wider && expected < got && got - expected == expected - h.bytes)
        bad_data(path, "has float64 numbers (its size fits " + describe(h) + "); need float32");
    if (expected > kMostBytes || !fits_memory(h.problem))
        bad_data(path, needs + (stored.known ? ", file has " + std::to_string(stored.bytes) : ""));
    if (!stored.known) return;
    if (gzip) {
        if (expected > got * kMaxDeflateRatio + h.bytes)
            bad_data(path, needs + ", a gzip file of " + std::to_string(stored.bytes) + " bytes cannot hold them");
        return;
    }
    if (expected == got) return;
    const std::string sizes =
        "expected " + decimal(expected) + " bytes for " + describe(h) + ", got " + std::to_string(stored.bytes);
    if (expected < got) bad_data(path, sizes);
    if (got < h.bytes) bad_data(path, sizes + ": ends in the lengths");
    const auto number =
        (stored.bytes - static_cast<int64_t>(h.bytes)) / static_cast<int64_t>(bytes_of(h.problem.element));
    bad_data(path, sizes + ": ends in " + place_of(h.problem, h.problem.operation->inputs, number));
}

} // namespace

CaseReader::CaseReader(const std::string& name, const Operation* asked) : path_(shown_input(name)) {
    OpenFile file = open_input(name);
    const StoredSize stored = {S_ISREG(file.status.st_mode), static_cast<int64_t>(stored_bytes(file))};
    std::unique_ptr<ByteSource> source = std::make_unique<PlainSource>(path_, std::move(file));
    Bytes start = read_up_to(*source, kShortHeaderBytes);
    const bool whole_case = is_whole_case(start, stored);
    const bool gzip = !whole_case && is_marked_gzip(start);
    if (gzip) {
        source = std::make_unique<GzipSource>(path_, std::move(source), start);
        start = read_up_to(*source, kShortHeaderBytes);
    }
    const bool npy = !whole_case && start.size() == kShortHeaderBytes && is_npy(start);
    read_header_on(path_, *source, npy ? npy_header_bytes(path_, start) : header_bytes(start), start);
    if (!whole_case && !npy) refuse_other_formats(path_, start);
    header_ = npy ? parse_npy_header(path_, start) : parse_header(path_, start);
    take_asked(path_, header_, asked);
    refuse_wrong_size(path_, start, header_, stored, gzip);
    if (problem().by_lengths) read_lengths(*source);
    size_checked_ = stored.known;
    size_known_ = stored.known && !gzip;
    files_.push_back({path_, std::move(source), header_.bytes});
    split_ = SplitBatches(problem().file_bytes(problem().operation->inputs));
}

CaseReader::CaseReader(const std::vector<std::string>& arrays) : size_checked_(true), size_known_(true) {
    std::vector<NpyHeader> headers;
    std::vector<uint64_t> sizes;
    for (const std::string& name : arrays) {
        refuse_stream(name, "an array by itself is read in no order");
        OpenFile file = open_input(name);
        sizes.push_back(stored_bytes(file));
        auto source = std::make_unique<PlainSource>(name, std::move(file));
        headers.push_back({name, npy_header_in(name, *source)});
        files_.push_back({name, std::move(source), headers.back().header.size()});
        path_ += (path_.empty() ? "" : ", ") + name;
    }
    header_ = parse_npy_headers(headers);
    const Wide all = file_bytes(header_);
    if (all > kMostBytes) bad_data(path_, "need " + decimal(all) + " bytes, more than any file has");
    if (!fits_memory(problem()))
        bad_data(path_, "have rows that need " + std::to_string(problem().dim) +
                            " columns each in memory, more bytes than any memory has");
    for (size_t i = 0; i < files_.size(); ++i) {
        const Operand& operand = problem().operation->inputs[i];
        const size_t bytes =
            files_[i].header_bytes +
            static_cast<size_t>(problem().batches * problem().rows_of(operand) * problem().columns_of(operand)) *
                bytes_of(problem().element);
        if (sizes[i] != bytes)
            bad_data(files_[i].path,
                     "expected " + std::to_string(bytes) + " bytes for its shape, got " + std::to_string(sizes[i]));
    }
    split_ = SplitBatches(problem(), problem().operation->inputs);
}

size_t CaseReader::read_from(size_t data_offset, void* to, size_t size) {
    if (!random_access()) return files_.front().source->read(to, size);
    size_t got = 0;
    split_.each_stretch(data_offset, size, [&](size_t file, uint64_t at, size_t done, size_t count) {
        const File& from = files_[file];
        got += from.source->random_access()->read_at(from.header_bytes + at, static_cast<char*>(to) + done, count);
        return got == done + count;
    });
    return got;
}

uint32_t CaseReader::lengths_crc32() const {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(lengths());
    return static_cast<uint32_t>(::crc32_z(0, bytes, lengths_.size() * sizeof lengths_[0]));
}

std::vector<CaseReader::Sample> CaseReader::samples() {
    const uint64_t whole = problem().file_bytes(problem().operation->inputs);
    const uint64_t most = std::min(whole, kSampleBytes);
    std::vector<Sample> samples;
    Bytes block(static_cast<size_t>(most));
    for (uint64_t i = 0; i < kSamples; ++i) {
        const uint64_t first = i + 1 == kSamples ? whole - most : (whole - most) / (kSamples - 1) * i;
        const size_t got = read_from(static_cast<size_t>(first), block.data(), block.size());
        if (got < block.size()) fail_ended_early(static_cast<size_t>(first) + got);
        samples.push_back({first, most, static_cast<uint32_t>(::crc32_z(0, block.data(), block.size()))});
    }
    return samples;
}

void CaseReader::read_rows(int64_t first, int64_t count, float* to) {
    const size_t bytes = static_cast<size_t>(count) * problem().stored_row_bytes();
    const size_t floats = problem().floats_in(count);
    read_stored_rows(first, count, reinterpret_cast<char*>(to + floats) - bytes);
    widen_at_end(problem().element, to, floats);
}

void CaseReader::read_stored_rows(int64_t first, int64_t count, void* to) {
    const size_t row_bytes = problem().stored_row_bytes();
    const size_t element = bytes_of(problem().element);
    const auto read = [&](int64_t row, int64_t rows, int64_t columns, int64_t number) {
        auto* const room = static_cast<unsigned char*>(to) + static_cast<size_t>(row - first) * row_bytes;
        const size_t start = static_cast<size_t>(number) * element;
        const size_t wanted = static_cast<size_t>(rows * columns) * element;
        const size_t got = read_from(start, room + static_cast<size_t>(rows) * row_bytes - wanted, wanted);
        if (got < wanted) fail_ended_early(start + got);
        pad_at_end(room, rows, row_bytes, static_cast<size_t>(columns) * element);
    };
    each_file_stretch(problem(), problem().operation->inputs, first, count, read);
}

// Reads only as many at a time as exist: the header of a pipe may claim any number.
void CaseReader::read_lengths(ByteSource& source) {
    constexpr size_t kAtOnce = size_t{1} << 16;
    const auto batches = static_cast<size_t>(problem().batches);
    while (lengths_.size() < batches) {
        const size_t before = lengths_.size();
        lengths_.resize(std::min(batches, before + kAtOnce));
        const size_t wanted = (lengths_.size() - before) * sizeof lengths_[0];
        if (source.read(&lengths_[before], wanted) < wanted) bad_data(path_, "ends in the lengths of its batches");
    }
    for (size_t batch = 0; batch < batches; ++batch)
        if (lengths_[batch] < 1 || lengths_[batch] > problem().keys)
            bad_data(path_, "lengths: batch " + std::to_string(batch) + " has " + std::to_string(lengths_[batch]) +
                                " keys, need 1 to N_k = " + std::to_string(problem().keys));
}

size_t CaseReader::whole_bytes() const { return header_.bytes + problem().file_bytes(problem().operation->inputs); }

void CaseReader::fail_ended_early(size_t got) const {
    const auto number = static_cast<int64_t>(got / bytes_of(problem().element));
    const std::string numbers = "expected " + std::to_string(whole_bytes()) + " bytes, got " +
                                std::to_string(header_.bytes + got) + ": ends in " +
                                place_of(problem(), problem().operation->inputs, number);
    if (size_known_) fail_changed(path_, numbers);
    bad_data(path_, numbers);
}

void CaseReader::expect_end() {
    unsigned char extra = 0;
    if (read_from(problem().file_bytes(problem().operation->inputs), &extra, 1) > 0) {
        const std::string what =
            "data goes on after the last batch, expected " + std::to_string(whole_bytes()) + " bytes";
        if (size_known_) fail_changed(path_, what);
        bad_data(path_, what);
    }
    for (const File& file : files_)
        if (file.source->changed()) fail_changed(file.path, "it was written to");
}

} // namespace hw4
