#include "src/io/temporary_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "src/base/error.h"

namespace hw4 {
namespace {

namespace fs = std::filesystem;

constexpr int kNameAttempts = 100;
constexpr size_t kNameBytesKept = 200; // of the target's in the temporary name, which must stay under 255
constexpr const char* kEnd = ".tmp";

// Temporary names of a target: NAME.hw4-PROCESS-ATTEMPT.tmp. This is what comes before the process.
std::string start_of_names(const std::string& target_name) { return target_name.substr(0, kNameBytesKept) + ".hw4-"; }

bool is_number(const std::string& text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool is_temporary_name(const std::string& name, const std::string& start) {
    const size_t end = name.rfind(kEnd);
    const size_t dash = name.rfind('-');
    if (name.compare(0, start.size(), start) != 0 || end == std::string::npos || dash < start.size() || dash > end)
        return false;
    return name.substr(end) == kEnd && is_number(name.substr(start.size(), dash - start.size())) &&
           is_number(name.substr(dash + 1, end - dash - 1));
}

// Takes the lock of the open file, unless somebody has it. Also false where the file system has no locks.
bool try_lock(int fd) { return ::flock(fd, LOCK_EX | LOCK_NB) == 0; }

// To lock it. Not through a link, and not waiting for the other end of a FIFO. For writing, which NFS needs for a lock;
// a umask may have left its user only reading. Where it left neither, the file stays.
FileDescriptor open_left(int directory, const std::string& name) {
    constexpr int kFlags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    FileDescriptor writable(::openat(directory, name.c_str(), O_WRONLY | kFlags));
    if (writable.valid() || errno != EACCES) return writable;
    return FileDescriptor(::openat(directory, name.c_str(), O_RDONLY | kFlags));
}

bool remove_if_left(int directory, const std::string& name, const std::vector<FileIdentity>& kept) {
    const FileDescriptor fd = open_left(directory, name);
    struct stat found {};
    struct stat named {};
    if (!fd.valid() || ::fstat(fd.get(), &found) != 0 || !S_ISREG(found.st_mode) || found.st_uid != ::geteuid())
        return false;
    if (std::find(kept.begin(), kept.end(), identity_of(found)) != kept.end()) return false;
    // Its owner may have renamed it or removed it since it was opened; with the lock nobody does.
    return try_lock(fd.get()) && ::fstatat(directory, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           same_file(found, named) && ::unlinkat(directory, name.c_str(), 0) == 0;
}

struct CloseFolder {
    void operator()(DIR* folder) const { ::closedir(folder); }
};

// Their names; nothing and errno where the folder cannot be opened. What cannot be removed stays, and all of it where
// the folder may not be listed, or there is no memory to. Not by std::filesystem, which ends the program then.
std::optional<std::vector<std::string>> remove_leftovers(int directory, const std::string& start,
                                                         const std::vector<FileIdentity>& kept) {
    std::vector<std::string> removed;
    FileDescriptor fd(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.valid() && errno != EACCES) return std::nullopt;
    const std::unique_ptr<DIR, CloseFolder> folder(fd.valid() ? ::fdopendir(fd.get()) : nullptr);
    if (folder) fd.release(); // which closes it
    while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
        const std::string name = entry->d_name;
        if (is_temporary_name(name, start) && remove_if_left(directory, name, kept)) removed.push_back(name);
    }
    return removed;
}

} // namespace

std::string directory_of(const std::string& path) {
    const std::string parent = fs::path(path).parent_path().string();
    return parent.empty() ? "." : parent;
}

TemporaryFile::TemporaryFile(const std::string& target, const std::string& shown, mode_t mode,
                             InterruptGuard& interrupts, const std::vector<FileIdentity>& kept)
    : folder_(directory_of(target)), target_name_(fs::path(target).filename().string()),
      directory_(::open(folder_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)), place_(directory_.get(), ""),
      interrupts_(interrupts) {
    if (!directory_.valid() || !make(mode, kept))
        throw Error(ExitCode::cannot_create, shown + ": " + with_errno("cannot create a file in " + folder_));
}

// What cannot be removed now could not be on a signal, without its directory.
TemporaryFile::~TemporaryFile() {
    if (name().empty()) return;
    interrupts_.release(place_, [this] {
        ::unlinkat(directory_.get(), name().c_str(), 0);
        return true;
    });
}

// Where that fails, false and errno.
bool TemporaryFile::make(mode_t mode, const std::vector<FileIdentity>& kept) {
    const std::string start = start_of_names(target_name_);
    const auto removed = remove_leftovers(directory_.get(), start, kept);
    if (!removed) return false;
    for (const std::string& left : *removed) leftovers_.push_back(folder_ + "/" + left);
    for (int attempt = 0; attempt < kNameAttempts; ++attempt) {
        place_.second = start + std::to_string(::getpid()) + "-" + std::to_string(attempt) + kEnd;
        if (create(mode)) return true;
        if (errno != EEXIST) return false;
    }
    return false;
}

bool TemporaryFile::create(mode_t mode) {
    return interrupts_.guard(place_, [this, mode] {
        // O_EXCL: never an existing file, never through somebody's link.
        fd_ = FileDescriptor(::openat(directory_.get(), name().c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode));
        if (!fd_.valid()) return false;
        const int error = lock();
        if (error != 0 && error != EEXIST) ::unlinkat(directory_.get(), name().c_str(), 0);
        errno = error;
        return error == 0;
    });
}

// 0 or an error number. EEXIST: without its lock the new file looks like a leftover, and another process has taken it
// for one.
int TemporaryFile::lock() {
    lock_ = FileDescriptor(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
    struct stat made {};
    struct stat named {};
    if (!lock_.valid() || ::fstat(fd_.get(), &made) != 0) return errno;
    if (!try_lock(fd_.get()) && errno == EWOULDBLOCK) return EEXIST;
    if (::fstatat(directory_.get(), name().c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? EEXIST : errno;
    return same_file(made, named) ? 0 : EEXIST;
}

FileDescriptor TemporaryFile::open_target() const {
    return FileDescriptor(::openat(directory_.get(), target_name_.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
}

bool TemporaryFile::rename_to_target() {
    const auto rename = [this] {
        return ::renameat(directory_.get(), name().c_str(), directory_.get(), target_name_.c_str()) == 0;
    };
    if (!interrupts_.release(place_, rename)) return false;
    place_.second.clear(); // that name is not ours any longer
    return true;
}

} // namespace hw4
