#include "src/io/gzip.h"

#include <algorithm>
#include <utility>

#include "src/base/error.h"

namespace hw4 {
namespace {
constexpr size_t kBufferBytes = size_t{1} << 18;
constexpr size_t kStep = size_t{1} << 30; // zlib counts in unsigned int
constexpr int kGzip = 15 + 16;            // largest window; gzip header and checksum
constexpr int kLevel = Z_BEST_SPEED; // floats hardly compress better at a higher level, which takes many times as long
constexpr int kMemory = 8;           // zlib's default

[[noreturn]] void fail_memory(const std::string& path) {
    throw Error(ExitCode::out_of_memory, path + ": no memory for gzip");
}
} // namespace

GzipSource::GzipSource(std::string path, std::unique_ptr<ByteSource> compressed,
                       const std::vector<unsigned char>& start)
    : path_(std::move(path)), compressed_(std::move(compressed)), buffer_(std::max(kBufferBytes, start.size())),
      taken_(start.size()) {
    std::copy(start.begin(), start.end(), buffer_.begin());
    stream_.next_in = buffer_.data();
    stream_.avail_in = static_cast<uInt>(start.size());
    if (inflateInit2(&stream_, kGzip) != Z_OK) fail_memory(path_);
}

GzipSource::~GzipSource() { inflateEnd(&stream_); }

void GzipSource::fail(const std::string& why) const {
    throw Error(ExitCode::bad_data, path_ + ": gzip stream corrupt at byte " +
                                        std::to_string(taken_ - stream_.avail_in) + " of the file: " + why);
}

// Reads more compressed bytes into the buffer; false at the end of the file.
bool GzipSource::fill() {
    if (stream_.avail_in > 0) return true;
    const size_t got = compressed_->read(buffer_.data(), buffer_.size());
    taken_ += got;
    stream_.next_in = buffer_.data();
    stream_.avail_in = static_cast<uInt>(got);
    return got > 0;
}

// A gzip file may contain several streams; anything else after a stream is an error.
void GzipSource::finish_member() {
    if (!fill()) {
        ended_ = true;
        return;
    }
    if (*stream_.next_in != 0x1f) fail("other data follows the gzip stream");
    inflateReset(&stream_);
}

void GzipSource::inflate_some() {
    if (!fill()) fail("unexpected end");
    const int status = inflate(&stream_, Z_NO_FLUSH);
    if (status == Z_STREAM_END) return finish_member();
    if (status == Z_MEM_ERROR) fail_memory(path_);
    if (status != Z_OK && status != Z_BUF_ERROR) fail(stream_.msg != nullptr ? stream_.msg : "not gzip");
}

size_t GzipSource::read(void* to, size_t size) {
    auto* bytes = static_cast<unsigned char*>(to);
    size_t done = 0;
    while (done < size && !ended_) {
        const size_t step = std::min(size - done, kStep);
        stream_.next_out = bytes + done;
        stream_.avail_out = static_cast<uInt>(step);
        inflate_some();
        done += step - stream_.avail_out;
    }
    return done;
}

GzipSink::GzipSink(std::string path, Write write)
    : path_(std::move(path)), write_(std::move(write)), buffer_(kBufferBytes) {
    if (deflateInit2(&stream_, kLevel, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) != Z_OK) fail_memory(path_);
}

GzipSink::~GzipSink() { deflateEnd(&stream_); }

void GzipSink::write(const void* data, size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (size_t done = 0; done < size;) {
        const size_t step = std::min(size - done, kStep);
        // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): zlib only reads there
        stream_.next_in = const_cast<unsigned char*>(bytes + done);
        stream_.avail_in = static_cast<uInt>(step);
        deflate_all(Z_NO_FLUSH);
        done += step;
    }
}

void GzipSink::finish() { deflate_all(Z_FINISH); }

void GzipSink::deflate_all(int flush) {
    do {
        stream_.next_out = buffer_.data();
        stream_.avail_out = static_cast<uInt>(buffer_.size());
        if (deflate(&stream_, flush) == Z_STREAM_ERROR)
            throw Error(ExitCode::internal, path_ + ": zlib is in disorder");
        write_(buffer_.data(), buffer_.size() - stream_.avail_out);
    } while (stream_.avail_out == 0); // the buffer was full: there may be more
}

} // namespace hw4
