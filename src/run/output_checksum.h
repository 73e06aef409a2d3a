// The CRC-32 of an output that several threads write in parts, in any order.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

namespace hw4 {

class OutputChecksum {
public:
    // The checksum of a whole output.
    static std::string of(const void* data, size_t bytes) {
        OutputChecksum checksum;
        checksum.add(0, data, bytes);
        return checksum.text();
    }

    // Bytes of the output from `offset` on; each byte is given once.
    void add(uint64_t offset, const void* data, size_t bytes) {
        add_part(offset, ::crc32_z(0, static_cast<const unsigned char*>(data), bytes), bytes);
    }

    // Eight hexadecimal digits, as in testcases/expected.tsv. After all parts were added.
    std::string text() const {
        uLong whole = ::crc32_z(0, nullptr, 0);
        for (const auto& [offset, part] : parts_)
            whole = ::crc32_combine(whole, part.crc, static_cast<z_off_t>(part.bytes));
        char digits[16];
        std::snprintf(digits, sizeof digits, "%08lx", whole);
        return digits;
    }

    // Serializes the added parts, so that another process can join the parts of several.
    std::string packed() const {
        std::string bytes;
        for (const auto& [offset, added] : parts_) {
            const uint64_t numbers[] = {offset, added.crc, added.bytes};
            bytes.append(reinterpret_cast<const char*>(numbers), sizeof numbers);
        }
        return bytes;
    }
    void add_packed(const std::string& bytes) {
        uint64_t numbers[3];
        for (size_t at = 0; at + sizeof numbers <= bytes.size(); at += sizeof numbers) {
            std::memcpy(numbers, bytes.data() + at, sizeof numbers);
            add_part(numbers[0], numbers[1], static_cast<size_t>(numbers[2]));
        }
    }

private:
    struct Part {
        uint32_t crc;
        size_t bytes;
    };

    void add_part(uint64_t offset, uint64_t crc, size_t bytes) {
        const std::lock_guard<std::mutex> lock(mutex_);
        parts_[offset] = {static_cast<uint32_t>(crc), bytes};
    }

    std::mutex mutex_;
    std::map<uint64_t, Part> parts_; // by offset
};

} // namespace hw4
