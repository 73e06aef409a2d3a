// Helpers for tests of files: a folder that is removed afterwards, reading and writing whole files, test-case files,
// and failures as values.
#pragma once

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"

namespace hw4 {

class TemporaryFolder {
public:
    TemporaryFolder() : path_((std::filesystem::temp_directory_path() / "hw4-test-XXXXXX").string()) {
        if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error(with_errno("mkdtemp " + path_));
    }
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    const std::string& path() const { return path_; }
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }

    std::vector<std::string> names() const {
        std::vector<std::string> found;
        for (const auto& entry : std::filesystem::directory_iterator(path_))
            found.push_back(entry.path().filename().string());
        std::sort(found.begin(), found.end());
        return found;
    }

private:
    std::string path_;
};

inline void write_file(const std::string& path, const std::string& bytes) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (!file) throw std::runtime_error("cannot write " + path);
}

inline std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot open " + path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline mode_t mode_of(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) throw std::runtime_error(with_errno(path));
    return status.st_mode & 07777;
}

template <class T>
std::string bytes_of(const T* values, size_t count) {
    std::string bytes(count * sizeof(T), '\0');
    std::memcpy(bytes.data(), values, bytes.size());
    return bytes;
}

inline std::string header_bytes(int32_t batches, int32_t tokens, int32_t dim) {
    const std::array<int32_t, 3> header = {batches, tokens, dim};
    return bytes_of(header.data(), header.size());
}

inline std::string gzipped(const std::string& bytes) {
    z_stream stream{};
    EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    std::string out(deflateBound(&stream, bytes.size()), '\0');
    std::string in = bytes;
    stream.next_in = reinterpret_cast<Bytef*>(in.data());
    stream.avail_in = static_cast<uInt>(in.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
}

// A valid case with the data 0, 1, 2, ...
inline std::string counting_case(int32_t batches, int32_t tokens, int32_t dim) {
    std::vector<float> data(size_t{3} * static_cast<size_t>(batches) * static_cast<size_t>(tokens) *
                            static_cast<size_t>(dim));
    std::iota(data.begin(), data.end(), 0.0f);
    return header_bytes(batches, tokens, dim) + bytes_of(data.data(), data.size());
}

// A case of any size that takes no disk space: a hole reads as zeros. `marks` places floats in the data. False where
// the file system has no sparse files.
inline bool write_sparse_case(const std::string& path, const std::array<int32_t, 3>& problem,
                              const std::vector<std::pair<uint64_t, float>>& marks) {
    write_file(path, header_bytes(problem[0], problem[1], problem[2]));
    const uint64_t floats = uint64_t{3} * static_cast<uint64_t>(problem[0]) * static_cast<uint64_t>(problem[1]) *
                            static_cast<uint64_t>(problem[2]);
    if (::truncate(path.c_str(), static_cast<off_t>(12 + 4 * floats)) != 0) return false;
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    for (const auto& [place, value] : marks) {
        file.seekp(static_cast<std::streamoff>(12 + 4 * place));
        file.write(reinterpret_cast<const char*>(&value), sizeof value);
    }
    file.close();
    if (!file) throw std::runtime_error("cannot write " + path);
    return true;
}

// An error, to compare with EXPECT_EQ. No failure is {ok, ""}.
struct Failure {
    ExitCode code = ExitCode::ok;
    std::string message;

    friend bool operator==(const Failure& a, const Failure& b) { return a.code == b.code && a.message == b.message; }
    friend std::ostream& operator<<(std::ostream& out, const Failure& f) {
        return out << "exit " << static_cast<int>(f.code) << ", \"" << f.message << '"';
    }
};

template <class Action>
Failure failure_of(Action&& action) {
    try {
        action();
    } catch (const Error& error) {
        return {error.code(), error.what()};
    }
    return {};
}

} // namespace hw4
