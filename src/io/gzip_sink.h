// Compresses to a gzip stream as bytes come. The stream depends on the bytes alone, not on how they were cut.
#pragma once

#include <zlib.h>

#include <functional>
#include <string>
#include <vector>

namespace hw4 {

class GzipSink {
public:
    using Write = std::function<void(const void*, size_t)>;

    // `path` is for messages, `write` takes what was compressed.
    GzipSink(std::string path, Write write);
    ~GzipSink();
    GzipSink(const GzipSink&) = delete;
    GzipSink& operator=(const GzipSink&) = delete;

    void write(const void* data, size_t size);
    // No more bytes follow.
    void finish();

private:
    void deflate_all(int flush);

    std::string path_;
    Write write_;
    std::vector<unsigned char> buffer_;
    z_stream stream_{};
};

} // namespace hw4
