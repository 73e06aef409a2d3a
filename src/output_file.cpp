#include "output_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "error.h"

namespace hw4 {
namespace {

constexpr size_t kWriteStep = size_t{1} << 30;
constexpr int kMaxLinks = 40; // as many as Linux follows

[[noreturn]] void cannot_create(const std::string& path, const std::string& why) {
    throw Error(ExitCode::cannot_create, path + ": " + why);
}

bool is_missing(const std::error_code& error) {
    return error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
}

// What is there by this name; nothing where there is none. One that cannot be looked at might be the input itself.
std::optional<struct stat> status_of(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0) return status;
    if (!is_missing({errno, std::generic_category()})) cannot_create(path, with_errno("cannot stat"));
    return std::nullopt;
}

// The directory entry that rename() should replace: the end of a chain of symbolic links.
std::string behind_links(const std::string& path) {
    namespace fs = std::filesystem;
    // Anything but a plain file is opened by the user's own name; /dev/stdout may lead to pipe:[1], in no directory.
    const auto existing = status_of(path);
    if (existing && !S_ISREG(existing->st_mode)) return path;
    fs::path end = path;
    for (int links = 0; links <= kMaxLinks; ++links) {
        std::error_code error;
        const fs::path target = fs::read_symlink(end, error);
        if (error == std::errc::invalid_argument || is_missing(error)) return end.string(); // no link
        if (error) cannot_create(path, "cannot follow the symbolic link: " + error.message());
        end = target.is_absolute() ? target : end.parent_path() / target;
    }
    cannot_create(path, "too many levels of symbolic links");
}

} // namespace

void refuse_overwriting(const CaseReader& input, const std::string& output) {
    const auto existing = status_of(output);
    const FileIdentity in = input.identity();
    if (existing && existing->st_dev == in.device && existing->st_ino == in.inode)
        throw Error(ExitCode::usage, output + ": output is the same file as input " + input.path());
}

void refuse_same_output(const std::string& a, const std::string& b) {
    namespace fs = std::filesystem;
    std::error_code error;
    if (fs::exists(a, error) && !fs::is_regular_file(a, error)) return; // a device takes any number
    const auto file = [&](const std::string& path) { return fs::weakly_canonical(behind_links(path), error); };
    if (fs::equivalent(a, b, error) || file(a) == file(b))
        throw Error(ExitCode::usage, b + ": would overwrite the output " + a);
}

OutputFile::OutputFile(const std::string& path, InterruptGuard& interrupts) : path_(path), target_(behind_links(path)) {
    if (path_.empty()) cannot_create("''", "the output needs a name");
    const auto existing = status_of(target_);
    if (existing && S_ISDIR(existing->st_mode)) cannot_create(path_, "is a directory, need a file name");
    if (existing && ::access(target_.c_str(), W_OK) != 0) cannot_create(path_, with_errno("cannot write"));
    if (existing && !S_ISREG(existing->st_mode)) {
        direct_ = FileDescriptor(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
        if (!direct_.valid()) cannot_create(path_, with_errno("cannot open"));
        return;
    }
    temporary_.emplace(target_, path_, interrupts);
    if (existing) keep_mode(existing->st_mode);
}

// Set-user-id and its kin are not carried over: the new file may have another owner.
void OutputFile::keep_mode(mode_t mode) {
    if (::fchmod(fd(), mode & 0777) != 0 && errno != EPERM)
        cannot_create(path_, with_errno("cannot set the old file's mode"));
}

std::vector<std::string> OutputFile::leftovers() const {
    return temporary_ ? temporary_->leftovers() : std::vector<std::string>();
}

void OutputFile::fail_to_write() const { throw Error(ExitCode::io_error, path_ + ": " + with_errno("cannot write")); }

// `write_some(from, step, done)` is one system call.
template <class WriteSome>
void OutputFile::write_all(const void* data, size_t size, const WriteSome& write_some) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (size_t done = 0; done < size;) {
        const ssize_t wrote = write_some(bytes + done, std::min(size - done, kWriteStep), done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote == 0) errno = ENOSPC; // or it would be tried for ever
        if (wrote <= 0) fail_to_write();
        done += static_cast<size_t>(wrote);
    }
}

void OutputFile::write(const void* data, size_t size) {
    write_all(data, size, [this](const void* from, size_t step, size_t) { return ::write(fd(), from, step); });
}

void OutputFile::write_at(uint64_t offset, const void* data, size_t size) {
    write_all(data, size, [this, offset](const void* from, size_t step, size_t done) {
        return ::pwrite(fd(), from, step, static_cast<off_t>(offset + done));
    });
}

void OutputFile::reserve(uint64_t size) {
    if (!random_access()) return;
    while (::fallocate(fd(), 0, 0, static_cast<off_t>(size)) != 0) {
        if (errno == EINTR) continue;
        if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT) fail_to_write();
        return;
    }
}

void OutputFile::finish(bool sync) {
    // A device has no disk to reach: EINVAL (pipes) and ENOTSUP are its way to say so.
    if (sync && ::fsync(fd()) != 0 && !(!temporary_ && (errno == EINVAL || errno == ENOTSUP)))
        throw Error(ExitCode::io_error, path_ + ": " + with_errno("cannot flush to disk"));
    if ((temporary_ ? temporary_->close() : direct_.close_checked()) != 0)
        throw Error(ExitCode::io_error, path_ + ": " + with_errno("cannot close"));
}

void OutputFile::publish(bool sync) {
    if (!temporary_) return;
    if (!temporary_->rename_to(target_))
        throw Error(ExitCode::io_error, path_ + ": " + with_errno("cannot rename " + temporary_->path()));
    if (sync) sync_directory();
}

bool OutputFile::writes_to(int other) const {
    struct stat ours {};
    struct stat theirs {};
    return !temporary_ && ::fstat(fd(), &ours) == 0 && ::fstat(other, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
           ours.st_ino == theirs.st_ino;
}

// The new name itself is on the disk once its directory is.
void OutputFile::sync_directory() const {
    const FileDescriptor directory(::open(directory_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory.valid() || ::fsync(directory.get()) != 0)
        throw Error(ExitCode::io_error,
                    path_ + ": is written, but " + with_errno("its directory cannot be flushed to disk"));
}

void remark_leftovers(const char* program, const OutputFile& file) {
    for (const std::string& path : file.leftovers())
        std::fprintf(stderr, "%s: note: removed %s, left by a run that was killed\n", program, path.c_str());
}

} // namespace hw4
