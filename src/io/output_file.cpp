#include "src/io/output_file.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <climits>
#include <filesystem>

#include "src/base/standard_streams.h"

namespace hw4 {
namespace {

namespace fs = std::filesystem;

constexpr size_t kWriteStep = size_t{1} << 30;
constexpr int kMostLinks = 40;        // Linux's limit
constexpr int kNameAttempts = 10000;  // killed runs may have left files
constexpr size_t kNameBytes = 200;    // of the output's name in the temporary name, which must stay below 255
constexpr mode_t kNewFileMode = 0666; // less the umask
constexpr mode_t kOwnerOnly = 0600;   // until the file gets the mode of the old one

bool is_missing(int error) { return error == ENOENT || error == ENOTDIR; }

} // namespace

std::optional<struct stat> status_of(const std::string& path, ExitCode code) {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0) return status;
    if (!is_missing(errno)) throw Error(code, path + ": " + with_errno("cannot stat"));
    return std::nullopt;
}

std::string behind_links(const std::string& path, ExitCode code) {
    fs::path end = path;
    for (int links = 0; links <= kMostLinks; ++links) {
        std::array<char, PATH_MAX> target{};
        const ssize_t length = ::readlink(end.c_str(), target.data(), target.size());
        if (length < 0 && (errno == EINVAL || is_missing(errno))) return end.string(); // EINVAL: not a link
        if (length < 0) break;
        end = end.parent_path() / std::string(target.data(), static_cast<size_t>(length));
        errno = ELOOP;
    }
    throw Error(code, path + ": " + with_errno("cannot follow the symbolic link"));
}

std::string directory_of(const std::string& path) {
    const std::string parent = fs::path(path).parent_path().string();
    return parent.empty() ? "." : parent;
}

OutputFile::OutputFile(InterruptGuard& interrupts, const std::string& name)
    : path_(shown_output(name)), interrupts_(&interrupts) {
    open(name);
}

// Does not throw once the temporary file exists.
void OutputFile::open(const std::string& name) {
    if (name.empty()) throw Error(ExitCode::cannot_create, "'': the output needs a name");
    if (is_standard_stream(name)) return open_standard_output();
    const auto old = status_of(path_, ExitCode::cannot_create);
    if (old && S_ISDIR(old->st_mode))
        throw Error(ExitCode::cannot_create, path_ + ": is a directory, need a file name");
    if (old && ::access(path_.c_str(), W_OK) != 0) fail(ExitCode::cannot_create, "cannot write");
    if (!old || S_ISREG(old->st_mode)) return create_temporary(old);
    in_order_ = true;
    fd_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
    if (!fd_.valid()) fail(ExitCode::cannot_create, "cannot open");
}

OutputFile::OutputFile(const std::string& name, InterruptGuard& interrupts, const OutputForm& form)
    : OutputFile(interrupts, name) {
    if (form.gzip)
        gzip_ = std::make_unique<GzipSink>(path_, [this](const void* data, size_t size) { write_plain(data, size); });
    write(form.head.data(), form.head.size());
    head_bytes_ = form.head.size();
}

OutputFile::OutputFile(const std::string& name, const Temporary& of_another, const OutputForm& form)
    : path_(shown_output(name)), fd_(::open(of_another.path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC)),
      head_bytes_(form.head.size()) {
    struct stat found {};
    if (!fd_.valid() || ::fstat(fd_.get(), &found) != 0)
        fail(ExitCode::cannot_create, "cannot open " + of_another.path + ", which the first rank has made");
    if (found.st_ino != of_another.inode)
        throw Error(ExitCode::cannot_create, path_ + ": " + of_another.path +
                                                 " is another file here than for the first rank, need a shared one");
}

OutputFile::OutputFile(const std::string& name, Send send) : path_(shown_output(name)), send_(std::move(send)) {}

OutputFile::~OutputFile() {
    if (temporary_.empty()) return;
    interrupts_->release(temporary_, [this] {
        ::unlink(temporary_.c_str());
        return true;
    });
}

// A regular file that a shell has opened is also written in order, from its offset or at its end: `>>` keeps the
// previous content.
void OutputFile::open_standard_output() {
    in_order_ = true;
    const int flags = ::fcntl(STDOUT_FILENO, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
        throw Error(ExitCode::cannot_create, path_ + ": is closed, or not open for writing");
    fd_ = duplicate_of(STDOUT_FILENO);
    if (!fd_.valid()) fail(ExitCode::cannot_create, "cannot open");
}

void OutputFile::create_temporary(const std::optional<struct stat>& old) {
    target_ = behind_links(path_, ExitCode::cannot_create);
    // The link /dev/fd/N leads to the open file, which need not be the one at the link's name.
    const auto behind = old && target_ != path_ ? status_of(target_, ExitCode::cannot_create) : old;
    if (old && (!behind || behind->st_dev != old->st_dev || behind->st_ino != old->st_ino))
        throw Error(ExitCode::cannot_create, path_ + ": cannot replace the file behind it, which is not at " + target_);
    const std::string directory = directory_of(target_);
    const std::string start = directory + "/" + fs::path(target_).filename().string().substr(0, kNameBytes) + ".hw4-" +
                              std::to_string(::getpid()) + "-";
    for (int attempt = 0; attempt < kNameAttempts; ++attempt) {
        std::string name = start + std::to_string(attempt) + ".tmp";
        const bool created = interrupts_->guard(name, [&] {
            const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
            fd_ = FileDescriptor(::open(name.c_str(), flags, old ? kOwnerOnly : kNewFileMode));
            return fd_.valid();
        });
        if (!created && errno == EEXIST) continue;
        if (!created) break;
        temporary_ = std::move(name);
        if (old) take_mode_of(*old);
        return;
    }
    fail(ExitCode::cannot_create, "cannot create a file in " + directory);
}

// A group other than the old file's gets only the rights of all others. A file system without modes refuses.
void OutputFile::take_mode_of(const struct stat& old) const {
    mode_t mode = old.st_mode & 0777;
    if (::fchown(fd_.get(), static_cast<uid_t>(-1), old.st_gid) != 0) mode &= ~mode_t{070} | (mode & 07) << 3;
    (void)::fchmod(fd_.get(), mode);
}

OutputFile::Temporary OutputFile::temporary() const {
    struct stat made {};
    if (::fstat(fd_.get(), &made) != 0) fail(ExitCode::cannot_create, "cannot stat");
    return {temporary_, made.st_ino};
}

// The reason is in errno.
void OutputFile::fail(ExitCode code, const std::string& what) const {
    throw Error(code, path_ + ": " + with_errno(what));
}

// `write_some(from, step, done)` is one system call.
template <class WriteSome>
void OutputFile::write_all(const void* data, size_t size, const WriteSome& write_some) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (size_t done = 0; done < size;) {
        const ssize_t wrote = write_some(bytes + done, std::min(size - done, kWriteStep), done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote == 0) errno = ENOSPC; // otherwise it would be tried forever
        if (wrote <= 0) fail(ExitCode::io_error, "cannot write");
        done += static_cast<size_t>(wrote);
    }
}

void OutputFile::write(const void* data, size_t size) {
    if (send_)
        send_(std::exchange(sent_, sent_ + size), data, size);
    else if (gzip_)
        gzip_->write(data, size);
    else
        write_plain(data, size);
}

void OutputFile::write_plain(const void* data, size_t size) {
    write_all(data, size, [this](const void* from, size_t step, size_t) { return ::write(fd_.get(), from, step); });
}

void OutputFile::write_at(uint64_t offset, const void* data, size_t size) {
    if (send_) return send_(offset, data, size);
    offset += head_bytes_;
    write_all(data, size, [this, offset](const void* from, size_t step, size_t done) {
        return ::pwrite(fd_.get(), from, step, static_cast<off_t>(offset + done));
    });
}

void OutputFile::reserve(uint64_t size) {
    if (!random_access() || send_) return;
    while (::fallocate(fd_.get(), 0, 0, static_cast<off_t>(head_bytes_ + size)) != 0) {
        if (errno == EINTR) continue;
        if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT) fail(ExitCode::io_error, "cannot write");
        return;
    }
}

void OutputFile::finish(bool sync) {
    if (send_) return;
    if (gzip_) gzip_->finish();
    close(sync);
}

void OutputFile::close(bool sync) {
    // A device has no disk to flush to: EINVAL (pipes) and ENOTSUP mean that.
    if (sync && ::fsync(fd_.get()) != 0 && !(in_order_ && (errno == EINVAL || errno == ENOTSUP)))
        fail(ExitCode::io_error, "cannot flush to disk");
    if (fd_.close_checked() != 0) fail(ExitCode::io_error, "cannot close");
}

void OutputFile::publish(bool sync) {
    if (temporary_.empty()) return;
    const auto rename = [this] { return ::rename(temporary_.c_str(), target_.c_str()) == 0; };
    if (!interrupts_->release(temporary_, rename)) {
        if (errno != EBUSY && errno != EPERM) fail(ExitCode::cannot_create, "cannot rename " + temporary_);
        // A mounted file, or another user's file in a sticky directory. The complete result stays.
        const std::string why = with_errno("cannot be replaced");
        interrupts_->release(temporary_, [] { return true; });
        throw Error(ExitCode::cannot_create,
                    path_ + ": " + why + "; the complete result is in " + std::exchange(temporary_, ""));
    }
    temporary_.clear();
    if (sync) sync_directory();
}

// The new name is on the disk once its directory is flushed.
void OutputFile::sync_directory() const {
    const FileDescriptor directory(::open(directory_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory.valid() || ::fsync(directory.get()) != 0)
        fail(ExitCode::io_error, "is written, but its directory cannot be flushed to disk");
}

} // namespace hw4
