#include "temporary_file.h"

#include <fcntl.h>

#include <cstdio>
#include <filesystem>

#include "error.h"

namespace hw4 {
namespace {

constexpr int kNameAttempts = 100;
constexpr size_t kNameBytesKept = 200; // of the target's in the temporary name, which must stay under 255

} // namespace

std::string directory_of(const std::string& path) {
    const std::string parent = std::filesystem::path(path).parent_path().string();
    return parent.empty() ? "." : parent;
}

TemporaryFile::TemporaryFile(const std::string& target, const std::string& shown, InterruptGuard& interrupts)
    : interrupts_(interrupts) {
    const std::string name = std::filesystem::path(target).filename().string().substr(0, kNameBytesKept);
    const std::string start = directory_of(target) + "/" + name + ".hw4-" + std::to_string(::getpid()) + "-";
    bool made = false;
    for (int attempt = 0; attempt < kNameAttempts && !made; ++attempt) {
        path_ = start + std::to_string(attempt) + ".tmp";
        made = create();
        if (!made && errno != EEXIST) break;
    }
    if (!made)
        throw Error(ExitCode::cannot_create,
                    shown + ": " + with_errno("cannot create a file in " + directory_of(target)));
}

TemporaryFile::~TemporaryFile() {
    if (!path_.empty()) interrupts_.release(path_, [this] { return ::unlink(path_.c_str()) == 0; });
}

bool TemporaryFile::create() {
    // O_EXCL: never an existing file, never through somebody's link. 0666 leaves the mode to the umask.
    return interrupts_.guard(path_, [this] {
        fd_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
        return fd_.valid();
    });
}

bool TemporaryFile::rename_to(const std::string& target) {
    if (!interrupts_.release(path_, [&] { return ::rename(path_.c_str(), target.c_str()) == 0; })) return false;
    path_.clear(); // that name is not ours any longer
    return true;
}

} // namespace hw4
