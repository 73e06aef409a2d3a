// plain_copy: a program from file to file that does one thing after another, without arithmetic: pins a buffer of the
// file's size, reads everything, copies everything in, copies an output of the right size out, writes it.
// report/measure compares hw4 with it.
//
//     plain_copy INPUT OUTPUT
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "src/base/file_descriptor.h"
#include "src/gpu/device/check.h"

namespace {

using hw4::Error;
using hw4::ExitCode;
using hw4::FileDescriptor;

constexpr size_t kHeaderBytes = 12;
constexpr size_t kStep = size_t{1} << 30; // one call moves at most 2 GiB on Linux

[[noreturn]] void fail(const char* path, const char* what) {
    throw Error(ExitCode::io_error, std::string(path) + ": " + hw4::with_errno(what));
}

FileDescriptor open_file(const char* path, int flags) {
    FileDescriptor file(::open(path, flags | O_CLOEXEC, 0666));
    if (!file.valid()) fail(path, "cannot open");
    return file;
}

size_t size_of(const FileDescriptor& file, const char* path) {
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) fail(path, "cannot stat");
    if (static_cast<size_t>(status.st_size) <= kHeaderBytes) throw Error(ExitCode::bad_data, "the input has no data");
    return static_cast<size_t>(status.st_size);
}

void read_all(const FileDescriptor& file, const char* path, char* to, size_t size) {
    for (size_t done = 0; done < size;) {
        const ssize_t got = ::read(file.get(), to + done, std::min(size - done, kStep));
        if (got <= 0) fail(path, "cannot read");
        done += static_cast<size_t>(got);
    }
}

void write_all(const FileDescriptor& file, const char* path, const char* from, size_t size) {
    for (size_t done = 0; done < size;) {
        const ssize_t put = ::write(file.get(), from + done, std::min(size - done, kStep));
        if (put < 0) fail(path, "cannot write");
        done += static_cast<size_t>(put);
    }
}

void run(const char* input_path, const char* output_path) {
    const FileDescriptor input = open_file(input_path, O_RDONLY);
    const size_t size = size_of(input, input_path);
    const size_t input_bytes = size - kHeaderBytes;
    const size_t output_bytes = input_bytes / 3;
    void* host = nullptr;
    void* qkv = nullptr;
    void* out = nullptr;
    HW4_CUDA(cudaMallocHost(&host, size));
    auto* const bytes = static_cast<char*>(host);
    read_all(input, input_path, bytes, size);
    HW4_CUDA(cudaMalloc(&qkv, input_bytes));
    HW4_CUDA(cudaMalloc(&out, output_bytes));
    HW4_CUDA(cudaMemcpy(qkv, bytes + kHeaderBytes, input_bytes, cudaMemcpyHostToDevice));
    HW4_CUDA(cudaMemset(out, 0, output_bytes));
    HW4_CUDA(cudaMemcpy(host, out, output_bytes, cudaMemcpyDeviceToHost));
    FileDescriptor output = open_file(output_path, O_WRONLY | O_CREAT | O_TRUNC);
    write_all(output, output_path, bytes, output_bytes);
    if (output.close_checked() != 0) fail(output_path, "cannot close");
    HW4_CUDA(cudaFree(out));
    HW4_CUDA(cudaFree(qkv));
    HW4_CUDA(cudaFreeHost(host));
}

} // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: plain_copy INPUT OUTPUT\n");
        return static_cast<int>(ExitCode::usage);
    }
    try {
        run(argv[1], argv[2]);
        return 0;
    } catch (const Error& error) {
        std::fprintf(stderr, "plain_copy: %s\n", error.what());
        return static_cast<int>(error.code());
    }
}
