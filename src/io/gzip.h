// Reads and writes gzip streams incrementally.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/io/byte_source.h"

namespace hw4 {

// Uses zlib's inflate, not gzread, which ignores any bytes after the stream and cannot locate an error in a pipe.
class GzipSource : public ByteSource {
public:
    // `start`: bytes already taken from `compressed`. `path` is for messages.
    GzipSource(std::string path, std::unique_ptr<ByteSource> compressed, const std::vector<unsigned char>& start);
    ~GzipSource() override;
    GzipSource(const GzipSource&) = delete;
    GzipSource& operator=(const GzipSource&) = delete;

    size_t read(void* to, size_t size) override;
    void give_up() override { compressed_->give_up(); }
    bool changed() const override { return compressed_->changed(); }

private:
    bool fill();
    void inflate_some();
    void finish_member();
    [[noreturn]] void fail(const std::string& why) const;

    std::string path_;
    std::unique_ptr<ByteSource> compressed_;
    std::vector<unsigned char> buffer_;
    uint64_t taken_ = 0; // compressed bytes that have entered the buffer
    z_stream stream_{};
    bool ended_ = false;
};

// The stream depends on the bytes alone, not on how the writes were cut.
class GzipSink {
public:
    using Write = std::function<void(const void*, size_t)>;

    // `path` is for messages, `write` takes the compressed bytes.
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
