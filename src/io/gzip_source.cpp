#include "src/io/gzip_source.h"

#include <algorithm>

#include "src/base/error.h"

namespace hw4 {
namespace {
constexpr size_t kBufferBytes = size_t{1} << 18;
constexpr size_t kInflateStep = size_t{1} << 30; // zlib counts in unsigned int
constexpr int kGzipOnly = 15 + 16;               // largest window; gzip header and checksum expected
} // namespace

GzipSource::GzipSource(std::string path, std::unique_ptr<ByteSource> compressed,
                       const std::vector<unsigned char>& start)
    : path_(std::move(path)), compressed_(std::move(compressed)), buffer_(std::max(kBufferBytes, start.size())),
      taken_(start.size()) {
    std::copy(start.begin(), start.end(), buffer_.begin());
    stream_.next_in = buffer_.data();
    stream_.avail_in = static_cast<uInt>(start.size());
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) throw Error(ExitCode::out_of_memory, path_ + ": no memory for gzip");
}

GzipSource::~GzipSource() { inflateEnd(&stream_); }

void GzipSource::fail(const std::string& why) const {
    throw Error(ExitCode::bad_data, path_ + ": gzip stream corrupt at byte " +
                                        std::to_string(taken_ - stream_.avail_in) + " of the file: " + why);
}

// More compressed bytes into the buffer; false at the end of the file.
bool GzipSource::fill() {
    if (stream_.avail_in > 0) return true;
    const size_t got = compressed_->read(buffer_.data(), buffer_.size());
    taken_ += got;
    stream_.next_in = buffer_.data();
    stream_.avail_in = static_cast<uInt>(got);
    return got > 0;
}

// A gzip file may be several streams in a row; anything else after a stream is an error.
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
    if (status == Z_MEM_ERROR) throw Error(ExitCode::out_of_memory, path_ + ": no memory for gzip");
    if (status != Z_OK && status != Z_BUF_ERROR) fail(stream_.msg != nullptr ? stream_.msg : "not gzip");
}

size_t GzipSource::read(void* to, size_t size) {
    auto* bytes = static_cast<unsigned char*>(to);
    size_t done = 0;
    while (done < size && !ended_) {
        const size_t step = std::min(size - done, kInflateStep);
        stream_.next_out = bytes + done;
        stream_.avail_out = static_cast<uInt>(step);
        inflate_some();
        done += step - stream_.avail_out;
    }
    return done;
}

} // namespace hw4
