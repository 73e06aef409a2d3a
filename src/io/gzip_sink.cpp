#include "src/io/gzip_sink.h"

#include <algorithm>
#include <utility>

#include "src/base/error.h"

namespace hw4 {
namespace {
constexpr size_t kBufferBytes = size_t{1} << 18;
constexpr size_t kDeflateStep = size_t{1} << 30; // zlib counts in unsigned int
constexpr int kGzip = 15 + 16;                   // largest window; gzip header and checksum
constexpr int kLevel = Z_BEST_SPEED; // floats hardly become smaller by a higher one, which takes many times as long
constexpr int kMemory = 8;           // zlib's default
} // namespace

GzipSink::GzipSink(std::string path, Write write)
    : path_(std::move(path)), write_(std::move(write)), buffer_(kBufferBytes) {
    if (deflateInit2(&stream_, kLevel, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
        throw Error(ExitCode::out_of_memory, path_ + ": no memory for gzip");
}

GzipSink::~GzipSink() { deflateEnd(&stream_); }

void GzipSink::write(const void* data, size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (size_t done = 0; done < size;) {
        const size_t step = std::min(size - done, kDeflateStep);
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
