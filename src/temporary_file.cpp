#include "temporary_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "error.h"

namespace hw4 {
namespace {

namespace fs = std::filesystem;

constexpr int kNameAttempts = 100;
constexpr size_t kNameBytesKept = 200; // of the target's in the temporary name, which must stay under 255
constexpr const char* kEnd = ".tmp";

// Temporary names of a target: NAME.hw4-PROCESS-ATTEMPT.tmp. This is what comes before the process.
std::string start_of_names(const std::string& target) {
    return fs::path(target).filename().string().substr(0, kNameBytesKept) + ".hw4-";
}

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
FileDescriptor open_left(const std::string& path) {
    constexpr int kFlags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    const int fd = ::open(path.c_str(), O_WRONLY | kFlags);
    return FileDescriptor(fd < 0 && errno == EACCES ? ::open(path.c_str(), O_RDONLY | kFlags) : fd);
}

bool remove_if_left(const std::string& path, const std::vector<FileIdentity>& kept) {
    const FileDescriptor fd = open_left(path);
    struct stat found {};
    struct stat named {};
    if (!fd.valid() || ::fstat(fd.get(), &found) != 0 || !S_ISREG(found.st_mode) || found.st_uid != ::geteuid())
        return false;
    if (std::find(kept.begin(), kept.end(), identity_of(found)) != kept.end()) return false;
    // Its owner may have renamed it or removed it since it was opened; with the lock nobody does.
    return try_lock(fd.get()) && ::lstat(path.c_str(), &named) == 0 && same_file(found, named) &&
           ::unlink(path.c_str()) == 0;
}

struct CloseFolder {
    void operator()(DIR* folder) const { ::closedir(folder); }
};

// What cannot be listed or removed stays; creating the new file says what is wrong with the folder. Not by
// std::filesystem, which ends the program where there is no memory for the list.
std::vector<std::string> remove_leftovers(const std::string& target, const std::vector<FileIdentity>& kept) {
    std::vector<std::string> removed;
    const std::string start = start_of_names(target);
    const std::string folder = directory_of(target) + "/";
    const std::unique_ptr<DIR, CloseFolder> open(::opendir(folder.c_str()));
    while (const dirent* entry = open ? ::readdir(open.get()) : nullptr) {
        const std::string name = entry->d_name;
        if (!is_temporary_name(name, start)) continue;
        const std::string path = folder + name;
        if (remove_if_left(path, kept)) removed.push_back(path);
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
    : leftovers_(remove_leftovers(target, kept)), interrupts_(interrupts) {
    const std::string start = directory_of(target) + "/" + start_of_names(target) + std::to_string(::getpid()) + "-";
    bool made = false;
    for (int attempt = 0; attempt < kNameAttempts && !made; ++attempt) {
        path_ = start + std::to_string(attempt) + kEnd;
        made = create(mode);
        if (!made && errno != EEXIST) break;
    }
    if (!made)
        throw Error(ExitCode::cannot_create,
                    shown + ": " + with_errno("cannot create a file in " + directory_of(target)));
}

TemporaryFile::~TemporaryFile() {
    if (!path_.empty()) interrupts_.release(path_, [this] { return ::unlink(path_.c_str()) == 0; });
}

bool TemporaryFile::create(mode_t mode) {
    return interrupts_.guard(path_, [this, mode] {
        // O_EXCL: never an existing file, never through somebody's link.
        fd_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
        if (!fd_.valid()) return false;
        const int error = lock();
        if (error != 0 && error != EEXIST) ::unlink(path_.c_str());
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
    if (::lstat(path_.c_str(), &named) != 0) return errno == ENOENT ? EEXIST : errno;
    return same_file(made, named) ? 0 : EEXIST;
}

bool TemporaryFile::rename_to(const std::string& target) {
    if (!interrupts_.release(path_, [&] { return ::rename(path_.c_str(), target.c_str()) == 0; })) return false;
    path_.clear(); // that name is not ours any longer
    return true;
}

} // namespace hw4
