#include "src/io/case_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cstdint>
#include <limits>
#include <vector>

#include "src/base/error.h"
#include "src/base/file_descriptor.h"
#include "src/io/gzip_source.h"

namespace hw4 {
namespace {

constexpr size_t kHeaderBytes = 12;
constexpr size_t kReadStep = size_t{1} << 30; // one read() moves at most 2 GiB on Linux
constexpr int kPollMilliseconds = 50;         // how soon a reader that waits notices give_up()
constexpr int64_t kMaxDeflateRatio = 1032;    // deflate's best case, so a bound on what a gzip file holds

using Header = std::array<int32_t, 3>;

[[noreturn]] void bad_data(const std::string& path, const std::string& what) {
    throw Error(ExitCode::bad_data, path + ": " + what);
}

// Any file as it is; also a pipe.
class PlainSource : public ByteSource, public RandomAccess {
public:
    PlainSource(std::string path, FileDescriptor fd, const struct stat& opened)
        : path_(std::move(path)), fd_(std::move(fd)), opened_(opened) {}

    size_t read(void* to, size_t size) override {
        return read_all(to, size, [this](void* at, size_t step, size_t) {
            if (random_access() == nullptr) wait_for_data();
            return ::read(fd_.get(), at, step);
        });
    }

    const RandomAccess* random_access() const override { return S_ISREG(opened_.st_mode) ? this : nullptr; }

    size_t read_at(uint64_t offset, void* to, size_t size) const override {
        return read_all(to, size, [this, offset](void* at, size_t step, size_t done) {
            return ::pread(fd_.get(), at, step, static_cast<off_t>(offset + done));
        });
    }

    void give_up() override { given_up_ = true; }

    bool changed() const override {
        struct stat now {};
        if (::fstat(fd_.get(), &now) != 0) throw Error(ExitCode::io_error, path_ + ": " + with_errno("cannot stat"));
        return S_ISREG(now.st_mode) &&
               (now.st_size != opened_.st_size || now.st_mtim.tv_sec != opened_.st_mtim.tv_sec ||
                now.st_mtim.tv_nsec != opened_.st_mtim.tv_nsec);
    }

private:
    // `read_some(at, step, done)` is one system call.
    template <class ReadSome>
    size_t read_all(void* to, size_t size, const ReadSome& read_some) const {
        auto* bytes = static_cast<unsigned char*>(to);
        size_t done = 0;
        while (done < size) {
            const ssize_t got = read_some(bytes + done, std::min(size - done, kReadStep), done);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) throw Error(ExitCode::io_error, path_ + ": " + with_errno("cannot read"));
            if (got == 0) break;
            done += static_cast<size_t>(got);
        }
        return done;
    }

    void wait_for_data() const {
        pollfd waited{fd_.get(), POLLIN, 0};
        while (!given_up_) {
            const int ready = ::poll(&waited, 1, kPollMilliseconds);
            if (ready > 0 || (ready < 0 && errno != EINTR)) return; // read() says what is wrong
        }
        throw Error(ExitCode::io_error, path_ + ": reading was given up");
    }

    std::string path_;
    FileDescriptor fd_;
    struct stat opened_;
    std::atomic<bool> given_up_{false};
};

int32_t swap_bytes(int32_t value) { return static_cast<int32_t>(__builtin_bswap32(static_cast<uint32_t>(value))); }

Header swapped(const Header& h) { return {swap_bytes(h[0]), swap_bytes(h[1]), swap_bytes(h[2])}; }

bool plausible(const Header& h) {
    return std::all_of(h.begin(), h.end(), [](int32_t v) { return v >= 1 && v <= (1 << 24); });
}

// Header and data; 128 bits because three int32 and a 12 do not fit in 64.
__int128 file_bytes(const Header& h) { return __int128{kHeaderBytes} + __int128{12} * h[0] * h[1] * h[2]; }

std::string decimal(__int128 value) {
    std::string digits;
    do {
        digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(value % 10)));
        value /= 10;
    } while (value > 0);
    return digits;
}

std::string describe(const Header& h) {
    return "B = " + std::to_string(h[0]) + ", N = " + std::to_string(h[1]) + ", d = " + std::to_string(h[2]);
}

// Files of another format that people hand over by mistake.
void refuse_other_formats(const std::string& path, const std::vector<unsigned char>& raw) {
    const std::string start(raw.begin(), raw.end());
    const std::string layout = "; need int32 B, N, d, then float32 Q, K, V of each batch";
    if (start.compare(0, 6, "\x93NUMPY") == 0) bad_data(path, "is a NumPy .npy file" + layout);
    if (start.compare(0, 4, "PK\x03\x04") == 0) bad_data(path, "is a zip archive (.npz or .pt?)" + layout);
    const bool text = std::all_of(raw.begin(), raw.end(),
                                  [](unsigned char c) { return std::isprint(c) != 0 || std::isspace(c) != 0; });
    if (text) bad_data(path, "is a text file" + layout);
}

void refuse_bad_fields(const std::string& path, const Header& h) {
    constexpr std::array<const char*, 3> names = {"B", "N", "d"};
    for (size_t i = 0; i < h.size(); ++i) {
        if (h[i] >= 1) continue;
        std::string what = "header: " + std::string(names[i]) + " = " + std::to_string(h[i]) +
                           ", need at least 1 (offset " + std::to_string(4 * i) + ")";
        if (plausible(swapped(h))) what += "; wrong byte order? swapped it reads " + describe(swapped(h));
        bad_data(path, what);
    }
}

// Where in the case the byte at `offset` of the data lies.
std::string place_of(const Shape& shape, size_t offset) {
    const size_t matrix_bytes = shape.batch_output_bytes();
    const size_t matrix = offset / matrix_bytes;
    return "batch " + std::to_string(matrix / 3) + ", " + "QKV"[matrix % 3] + ", row " +
           std::to_string(offset % matrix_bytes / shape.row_bytes());
}

struct OpenFile {
    FileDescriptor fd;
    struct stat status;
};

OpenFile open_input(const std::string& path) {
    OpenFile file{FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), {}};
    if (!file.fd.valid()) throw Error(ExitCode::no_input, path + ": " + with_errno("cannot open"));
    if (::fstat(file.fd.get(), &file.status) != 0)
        throw Error(ExitCode::io_error, path + ": " + with_errno("cannot stat"));
    if (S_ISDIR(file.status.st_mode)) throw Error(ExitCode::no_input, path + ": is a directory, need a file");
    return file;
}

using Bytes = std::vector<unsigned char>;

// What is known of a file's size: nothing for a pipe.
struct StoredSize {
    bool known;
    int64_t bytes;
};

Bytes read_up_to(ByteSource& source, size_t size) {
    Bytes bytes(size);
    bytes.resize(source.read(bytes.data(), size));
    return bytes;
}

Header header_of(const Bytes& bytes) {
    Header h;
    static_assert(sizeof h == kHeaderBytes);
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file's numbers are little-endian");
    std::memcpy(h.data(), bytes.data(), sizeof h);
    return h;
}

// Whether header and size agree. Then the file is a plain case: B may begin with the bytes that mark a gzip file, or
// one of another format.
bool is_whole_case(const Bytes& start, StoredSize stored) {
    if (!stored.known || start.size() != kHeaderBytes) return false;
    const Header h = header_of(start);
    return std::all_of(h.begin(), h.end(), [](int32_t v) { return v >= 1; }) && file_bytes(h) == stored.bytes;
}

bool is_marked_gzip(const Bytes& start) {
    return start.size() >= 2 && start[0] == 0x1f && start[1] == 0x8b && (start.size() == 2 || start[2] == 8);
}

void refuse_no_header(const std::string& path, const Bytes& start) {
    if (start.empty()) bad_data(path, "is empty, need a 12-byte header (int32 B, N, d)");
    if (start.size() < kHeaderBytes)
        bad_data(path, "header truncated: got " + std::to_string(start.size()) + " of 12 bytes (int32 B, N, d)");
}

void refuse_wrong_size(const std::string& path, const Header& h, StoredSize stored, bool gzip) {
    const __int128 expected = file_bytes(h);
    const std::string needs = "header: " + describe(h) + " needs " + decimal(expected) + " bytes";
    const bool reversed = stored.known && !gzip && plausible(swapped(h)) && file_bytes(swapped(h)) == stored.bytes;
    if (reversed && expected != stored.bytes)
        bad_data(path, "is big-endian (its size fits " + describe(swapped(h)) + "); need little-endian");
    if (expected > std::numeric_limits<int64_t>::max())
        bad_data(path, needs + (stored.known ? ", file has " + std::to_string(stored.bytes) : ""));
    if (!stored.known) return;
    if (gzip) {
        if (expected > __int128{stored.bytes} * kMaxDeflateRatio + kHeaderBytes)
            bad_data(path, needs + ", a gzip file of " + std::to_string(stored.bytes) + " bytes cannot hold them");
        return;
    }
    if (expected == stored.bytes) return;
    const std::string sizes =
        "expected " + decimal(expected) + " bytes for " + describe(h) + ", got " + std::to_string(stored.bytes);
    if (expected < stored.bytes) bad_data(path, sizes);
    bad_data(path,
             sizes + ": ends in " + place_of({h[0], h[1], h[2]}, static_cast<size_t>(stored.bytes) - kHeaderBytes));
}

} // namespace

CaseReader::CaseReader(const std::string& path) : path_(path) {
    OpenFile file = open_input(path);
    identity_ = identity_of(file.status);
    const StoredSize stored = {S_ISREG(file.status.st_mode), file.status.st_size};
    source_ = std::make_unique<PlainSource>(path, std::move(file.fd), file.status);
    Bytes start = read_up_to(*source_, kHeaderBytes);
    const bool whole_case = is_whole_case(start, stored);
    const bool gzip = !whole_case && is_marked_gzip(start);
    if (gzip) {
        source_ = std::make_unique<GzipSource>(path, std::move(source_), start);
        start = read_up_to(*source_, kHeaderBytes);
    }
    refuse_no_header(path, start);
    if (!whole_case) refuse_other_formats(path, start);
    const Header h = header_of(start);
    refuse_bad_fields(path, h);
    refuse_wrong_size(path, h, stored, gzip);
    shape_ = {h[0], h[1], h[2]};
    size_checked_ = stored.known;
    size_known_ = stored.known && !gzip;
}

size_t CaseReader::read_from(size_t data_offset, void* to, size_t size) {
    const RandomAccess* anywhere = source_->random_access();
    return anywhere != nullptr ? anywhere->read_at(kHeaderBytes + data_offset, to, size) : source_->read(to, size);
}

void CaseReader::read_rows(int64_t first, int64_t count, float* to) {
    const size_t start = static_cast<size_t>(first) * shape_.row_bytes();
    const size_t wanted = static_cast<size_t>(count) * shape_.row_bytes();
    const size_t got = read_from(start, to, wanted);
    if (got < wanted) fail_ended_early(start + got);
}

void CaseReader::fail_ended_early(size_t got) const {
    const std::string numbers = "expected " + std::to_string(kHeaderBytes + shape_.input_bytes()) + " bytes, got " +
                                std::to_string(kHeaderBytes + got) + ": ends in " + place_of(shape_, got);
    if (size_known_) fail_changed(numbers);
    bad_data(path_, numbers);
}

void CaseReader::fail_changed(const std::string& how) const {
    throw Error(ExitCode::io_error, path_ + ": file changed during read: " + how);
}

void CaseReader::expect_end() {
    unsigned char extra = 0;
    if (read_from(shape_.input_bytes(), &extra, 1) > 0) {
        const std::string what = "data goes on after the last batch, expected " +
                                 std::to_string(kHeaderBytes + shape_.input_bytes()) + " bytes";
        if (size_known_) fail_changed(what);
        bad_data(path_, what);
    }
    if (source_->changed()) fail_changed("it was written to");
}

} // namespace hw4
