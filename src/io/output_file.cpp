#include "src/io/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "src/base/error.h"
#include "src/base/standard_streams.h"
#include "src/io/access_list.h"

namespace hw4 {
namespace {

constexpr size_t kWriteStep = size_t{1} << 30;
constexpr size_t kCopyStep = size_t{1} << 16;
constexpr int kMaxLinks = 40;         // as many as Linux follows
constexpr int kLooks = 10;            // at a name that other runs may be replacing
constexpr mode_t kNewFileMode = 0666; // the rest is the umask's

[[noreturn]] void cannot_create(const std::string& path, const std::string& why) {
    throw Error(ExitCode::cannot_create, path + ": " + why);
}

bool is_missing(int error) { return error == ENOENT || error == ENOTDIR; }

using Look = int(const char*, struct stat*); // ::stat, or ::lstat for a link itself

// What is there by this name; nothing where there is none. One that cannot be looked at might be the input itself.
std::optional<struct stat> status_of(const std::string& path, Look& look = ::stat) {
    struct stat status {};
    if (look(path.c_str(), &status) == 0) return status;
    if (!is_missing(errno)) cannot_create(path, with_errno("cannot stat"));
    return std::nullopt;
}

// What an output of this name would replace or be written to.
std::optional<struct stat> behind_output(const std::string& name) {
    if (!is_standard_stream(name)) return status_of(name);
    struct stat status {};
    if (::fstat(STDOUT_FILENO, &status) != 0) cannot_create(shown_output(name), with_errno("cannot stat"));
    return status;
}

[[noreturn]] void cannot_look_at_directory(const std::string& path) {
    cannot_create(path, with_errno("cannot stat its directory"));
}

// Where everybody may make files but remove only their own, as in /tmp, a stranger's link could send our output over a
// file of ours, and a stranger's FIFO could take it. Linux refuses to follow such links too (protected_symlinks), but
// not to read them. A directory that cannot be looked at might be such a one.
bool planted(const std::string& path, uid_t owner) {
    if (owner == ::geteuid()) return false;
    constexpr mode_t kShared = S_ISVTX | S_IWOTH;
    struct stat directory {};
    if (::stat(directory_of(path).c_str(), &directory) != 0) cannot_look_at_directory(path);
    return (directory.st_mode & kShared) == kShared && owner != directory.st_uid;
}

// Where such a directory leaves a file to its owner, rename() would fail, after all the work.
bool may_replace(const std::string& path, uid_t owner) {
    const uid_t user = ::geteuid();
    struct stat directory {};
    return user == 0 || user == owner || ::stat(directory_of(path).c_str(), &directory) != 0 ||
           (directory.st_mode & S_ISVTX) == 0 || user == directory.st_uid;
}

// Where a symbolic link leads; nothing for any other file, or none. One look at the link answers both questions, whose
// it is and what it says.
std::optional<std::filesystem::path> link_target(const std::string& path) {
    const FileDescriptor link(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!link.valid() && is_missing(errno)) return std::nullopt;
    struct stat status {};
    if (!link.valid() || ::fstat(link.get(), &status) != 0) cannot_create(path, with_errno("cannot stat"));
    if (!S_ISLNK(status.st_mode)) return std::nullopt;
    if (planted(path, status.st_uid)) cannot_create(path, "is another user's symbolic link in a shared directory");
    std::array<char, PATH_MAX> target{};
    const ssize_t length = ::readlinkat(link.get(), "", target.data(), target.size());
    if (length < 0) cannot_create(path, with_errno("cannot follow the symbolic link"));
    return std::string(target.data(), static_cast<size_t>(length));
}

// The directory entry that rename() should replace: the end of a chain of symbolic links.
std::string behind_links(const std::string& path) {
    std::filesystem::path end = path;
    for (int links = 0; const auto target = link_target(end.string()); ++links) {
        if (links == kMaxLinks) cannot_create(path, "too many levels of symbolic links");
        end = end.parent_path() / *target; // an absolute one replaces it all
    }
    return end.string();
}

struct Place {
    std::string entry;                   // what rename() should replace
    std::optional<struct stat> existing; // the file that the output's name leads to
};

// The links of /dev/fd and /proc lead to an open file, but say only a name that it had or has elsewhere. A file whose
// name it still is gets replaced like any other, and who has it open keeps the old one; any other must not be, for the
// result would go where nobody looks for it. Other runs may replace the file between two looks at it.
Place find_place(const std::string& path) {
    Place place;
    for (int looks = 0; looks < kLooks; ++looks) {
        place = {behind_links(path), status_of(path)};
        if (!place.existing || !S_ISREG(place.existing->st_mode)) return place;
        const auto named = status_of(place.entry, ::lstat);
        if (named && same_file(*named, *place.existing)) return place;
    }
    cannot_create(path, "cannot replace the file behind it, which is not at " + place.entry);
}

// Nothing where it is not there.
std::optional<FileIdentity> directory_identity(const std::string& path) {
    struct stat status {};
    if (::stat(directory_of(path).c_str(), &status) == 0) return identity_of(status);
    if (!is_missing(errno)) cannot_look_at_directory(path);
    return std::nullopt;
}

std::string name_in_directory(const std::string& path) { return std::filesystem::path(path).filename().string(); }

// Whether two names, with links followed, are one entry of one directory. The file need not be there; where the
// directory is not, there is no entry, and OutputFile says so.
bool same_entry(const std::string& a, const std::string& b) {
    if (name_in_directory(a) != name_in_directory(b)) return false;
    const auto directory_a = directory_identity(a);
    return directory_a && directory_a == directory_identity(b);
}

// What a file lets others do. Set-user-id and its kin are no part of it.
struct Rights {
    gid_t group;
    mode_t mode;             // in which the group's are its own, also where there is a list
    std::string access_list; // or none
};

// What one group might do is not for another.
Rights for_another_group(const Rights& rights) {
    const mode_t others = rights.mode & 07;
    return {rights.group, rights.mode & (0707 | others << 3), with_group_like_others(rights.access_list)};
}

Rights rights_in(const struct stat& file, const std::string& path) {
    Rights by_mode = {file.st_gid, file.st_mode & 0777, ""};
    const auto list = access_list_of(path);
    if (!list) return for_another_group(by_mode); // the mode may be that of others in the list
    if (list->empty()) return by_mode;
    return {by_mode.group, (by_mode.mode & 0707) | rights_of_group(*list) << 3, *list};
}

// By a new file. Where something fails (FAT has no modes) the file is open to fewer.
void take_over(Rights rights, int fd) {
    struct stat ours {};
    const bool same_group = ::fstat(fd, &ours) == 0 && ours.st_gid == rights.group;
    if (!same_group && ::fchown(fd, static_cast<uid_t>(-1), rights.group) != 0) rights = for_another_group(rights);
    if (!rights.access_list.empty() && set_access_list(fd, rights.access_list)) return;
    // Its directory may have given it a list, to which the group's bits would open it.
    if (!set_access_list(fd, "")) rights.mode &= 0707;
    (void)::fchmod(fd, rights.mode);
}

// The number of the mount that an open file is on, in the words of /proc.
std::string mount_of(int fd) {
    std::ifstream info("/proc/self/fdinfo/" + std::to_string(fd));
    for (std::string word; info >> word;)
        if (word == "mnt_id:" && info >> word) return word;
    return "";
}

// Whether a file that is an entry of the directory is mounted there.
bool is_mount_point(int file, int directory) {
    const std::string mount = mount_of(file);
    const std::string around = mount_of(directory);
    return !mount.empty() && !around.empty() && mount != around;
}

} // namespace

void refuse_overwriting(const CaseReader& input, const std::string& output) {
    const auto existing = behind_output(output);
    if (!existing) return;
    // One socket or terminal may be on both sides.
    if (is_standard_stream(output) && !S_ISREG(existing->st_mode)) return;
    for (const CaseReader::File& file : input.files())
        if (identity_of(*existing) == file.identity)
            throw Error(ExitCode::usage, shown_output(output) + ": output is the same file as input " + file.path);
}

void refuse_same_output(const std::string& a, const std::string& b) {
    const bool named = !is_standard_stream(a) && !is_standard_stream(b);
    const auto old_a = behind_output(a);
    // A device takes any number; who reads standard output from a pipe wants one.
    if (old_a && (named ? !S_ISREG(old_a->st_mode) : S_ISCHR(old_a->st_mode))) return;
    const auto old_b = behind_output(b);
    // Names are compared even of two files that are there and differ: one name may lead to two files, if another run
    // replaces the file between two looks at it.
    if ((old_a && old_b && same_file(*old_a, *old_b)) || (named && same_entry(behind_links(a), behind_links(b))))
        throw Error(ExitCode::usage, shown_output(b) + ": would overwrite the output " + shown_output(a));
}

std::optional<std::pair<FileIdentity, std::string>> entry_of_output(const std::string& path) {
    const std::string entry = behind_links(path);
    const auto directory = directory_identity(entry);
    if (!directory) return std::nullopt;
    return std::pair(*directory, name_in_directory(entry));
}

std::vector<FileIdentity> files_of_run(const CaseReader& input, const std::vector<std::string>& outputs) {
    std::vector<FileIdentity> files;
    for (const CaseReader::File& file : input.files()) files.push_back(file.identity);
    for (const std::string& output : outputs) {
        if (output.empty()) continue;
        if (const auto existing = behind_output(output)) files.push_back(identity_of(*existing));
    }
    return files;
}

OutputFile::OutputFile(const std::string& name, InterruptGuard& interrupts, const std::vector<FileIdentity>& kept,
                       const OutputForm& form)
    : path_(shown_output(name)) {
    open(name, interrupts, kept);
    if (form.gzip)
        gzip_ = std::make_unique<GzipSink>(path_, [this](const void* data, size_t size) { write_plain(data, size); });
    write(form.head.data(), form.head.size());
    head_bytes_ = form.head.size();
}

OutputFile::OutputFile(const std::string& name, const Temporary& of_another, const OutputForm& form)
    : path_(shown_output(name)), direct_(::open(of_another.path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC)),
      others_(true), head_bytes_(form.head.size()) {
    struct stat found {};
    if (!direct_.valid() || ::fstat(direct_.get(), &found) != 0)
        cannot_create(path_, with_errno("cannot open " + of_another.path + ", which the first rank has made"));
    if (found.st_ino != of_another.inode)
        cannot_create(path_, of_another.path + " is another file here than for the first rank, need a shared one");
}

OutputFile::OutputFile(const std::string& name, Tell tell) : path_(shown_output(name)), tell_(std::move(tell)) {}

OutputFile::Temporary OutputFile::temporary() const {
    struct stat made {};
    if (::fstat(fd(), &made) != 0) cannot_create(path_, with_errno("cannot stat"));
    return {temporary_->path(), made.st_ino};
}

void OutputFile::open(const std::string& name, InterruptGuard& interrupts, const std::vector<FileIdentity>& kept) {
    if (name.empty()) cannot_create("''", "the output needs a name");
    if (is_standard_stream(name)) {
        open_standard_output();
        return;
    }
    const Place place = find_place(name);
    target_ = place.entry;
    if (place.existing)
        open_to_replace(*place.existing, interrupts, kept);
    else
        temporary_.emplace(target_, path_, kNewFileMode, interrupts, kept);
}

void OutputFile::open_to_replace(const struct stat& existing, InterruptGuard& interrupts,
                                 const std::vector<FileIdentity>& kept) {
    if (S_ISDIR(existing.st_mode)) cannot_create(path_, "is a directory, need a file name");
    if (::access(path_.c_str(), W_OK) != 0) cannot_create(path_, with_errno("cannot write"));
    if (!S_ISREG(existing.st_mode)) return open_direct();
    if (!may_replace(target_, existing.st_uid)) cannot_create(path_, "is another user's file in a shared directory");
    // A mode that a stranger chose is narrowed by the umask. Our own file's is taken over, and until then nobody else
    // may open what is perhaps to be private.
    const bool ours = existing.st_uid == ::geteuid();
    const Rights rights = rights_in(existing, target_);
    temporary_.emplace(target_, path_, rights.mode & (ours ? 0700 : 0777), interrupts, kept);
    if (ours) take_over(rights, fd());
}

void OutputFile::open_direct() {
    direct_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
    struct stat opened {};
    if (!direct_.valid() || ::fstat(direct_.get(), &opened) != 0) cannot_create(path_, with_errno("cannot open"));
    // A file that has taken its place meanwhile must not be written over.
    if (S_ISREG(opened.st_mode)) cannot_create(path_, "has just become a regular file");
    if (S_ISFIFO(opened.st_mode) && planted(target_, opened.st_uid))
        cannot_create(path_, "is another user's FIFO in a shared directory");
}

// Also a regular file that a shell has opened is written in order from where it stands, or at its end: only so does
// `>>` keep what was there.
void OutputFile::open_standard_output() {
    const int flags = ::fcntl(STDOUT_FILENO, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) cannot_create(path_, "is closed, or not open for writing");
    direct_ = duplicate_of(STDOUT_FILENO);
    if (!direct_.valid()) cannot_create(path_, with_errno("cannot open"));
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
    if (tell_)
        tell_(std::exchange(told_, told_ + size), data, size);
    else if (gzip_)
        gzip_->write(data, size);
    else
        write_plain(data, size);
}

void OutputFile::write_plain(const void* data, size_t size) {
    write_all(data, size, [this](const void* from, size_t step, size_t) { return ::write(fd(), from, step); });
}

void OutputFile::write_at(uint64_t offset, const void* data, size_t size) {
    if (tell_) return tell_(offset, data, size);
    offset += head_bytes_;
    write_all(data, size, [this, offset](const void* from, size_t step, size_t done) {
        return ::pwrite(fd(), from, step, static_cast<off_t>(offset + done));
    });
}

void OutputFile::reserve(uint64_t size) {
    if (random_access() && !tell_) reserve_in(fd(), 0, head_bytes_ + size);
}

void OutputFile::reserve_in(int file, int mode, uint64_t size) const {
    while (::fallocate(file, mode, 0, static_cast<off_t>(size)) != 0) {
        if (errno == EINTR) continue;
        if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT) fail_to_write();
        return;
    }
}

void OutputFile::flush(int file) const {
    // A device has no disk to reach: EINVAL (pipes) and ENOTSUP are its way to say so.
    if (::fsync(file) != 0 && !(!temporary_ && (errno == EINVAL || errno == ENOTSUP)))
        throw Error(ExitCode::io_error, path_ + ": " + with_errno("cannot flush to disk"));
}

void OutputFile::finish(bool sync) {
    if (tell_) return;
    if (gzip_) gzip_->finish();
    if (sync) flush(fd());
    if ((temporary_ ? temporary_->close() : direct_.close_checked()) != 0)
        throw Error(ExitCode::io_error, path_ + ": " + with_errno("cannot close"));
}

void OutputFile::publish(bool sync) {
    if (!temporary_) return;
    if (temporary_->rename_to_target()) {
        if (sync) sync_directory();
        return;
    }
    const bool busy = errno == EBUSY;
    const std::string message = path_ + ": " + with_errno("cannot rename " + temporary_->path());
    if (busy) direct_ = temporary_->open_target();
    if (!direct_.valid() || !is_mount_point(direct_.get(), temporary_->directory()))
        throw Error(ExitCode::io_error, message);
    temporary_->undisturbed([&] { write_through(sync); });
}

void OutputFile::write_through(bool sync) {
    struct stat result {};
    if (::fstat(temporary_->reader(), &result) != 0) fail_to_write();
    reserve_in(direct_.get(), FALLOC_FL_KEEP_SIZE, static_cast<uint64_t>(result.st_size));
    std::array<char, kCopyStep> bytes{};
    for (off_t done = 0; done < result.st_size;) {
        const ssize_t got = ::pread(temporary_->reader(), bytes.data(), bytes.size(), done);
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) errno = EIO; // somebody has cut it short
        if (got <= 0) throw Error(ExitCode::io_error, path_ + ": " + with_errno("cannot read back"));
        write_all(bytes.data(), static_cast<size_t>(got), [&](const void* from, size_t step, size_t part) {
            return ::pwrite(direct_.get(), from, step, done + static_cast<off_t>(part));
        });
        done += got;
    }
    while (::ftruncate(direct_.get(), result.st_size) != 0)
        if (errno != EINTR) fail_to_write();
    if (sync) flush(direct_.get());
    if (direct_.close_checked() != 0) throw Error(ExitCode::io_error, path_ + ": " + with_errno("cannot close"));
}

bool OutputFile::writes_to(int other) const {
    if (temporary_) return false;
    struct stat ours {};
    struct stat theirs {};
    return ::fstat(fd(), &ours) != 0 || ::fstat(other, &theirs) != 0 || same_file(ours, theirs);
}

// The new name itself is on the disk once its directory is.
void OutputFile::sync_directory() const {
    const FileDescriptor directory(::openat(temporary_->directory(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory.valid() || ::fsync(directory.get()) != 0)
        throw Error(ExitCode::io_error,
                    path_ + ": is written, but " + with_errno("its directory cannot be flushed to disk"));
}

void remark_leftovers(const char* program, const OutputFile& file) {
    for (const std::string& path : file.leftovers())
        std::fprintf(stderr, "%s: note: removed %s, left by a run that was killed\n", program, one_line(path).c_str());
}

} // namespace hw4
