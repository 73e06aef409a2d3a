// A new file, beside the one that it may replace. It goes with its owner, or with the process when a signal ends that,
// unless it was renamed. All that is done about it is done in the directory that was opened, whatever its name by then.
//
// A process that is killed outright (SIGKILL, no more memory) leaves its file behind. So that those do not pile up, the
// next one for the same target removes them. Which ones they are is told by a lock that every process holds on its
// temporary file and that goes with the process, on whatever machine it was: one that can be had is a leftover's. Only
// who holds the lock of a temporary file may remove or rename it. A file that the run itself is about may have such a
// name too, its input for one; which those are has to be told.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/file_identity.h"
#include "src/base/interrupt.h"

namespace hw4 {

class TemporaryFile {
public:
    // In the directory of `target`, with the mode less what the umask takes. The files `kept` are no leftovers,
    // whatever their names. Throws Error (cannot_create), in which `shown` is the target's name.
    TemporaryFile(const std::string& target, const std::string& shown, mode_t mode, InterruptGuard& interrupts,
                  const std::vector<FileIdentity>& kept = {});
    ~TemporaryFile();
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;

    // As it was when the file was made.
    std::string path() const { return folder_ + "/" + name(); }
    // For other calls in it than reading.
    int directory() const { return directory_.get(); }
    int fd() const { return fd_.get(); }
    // close()'s own result. The lock stays, and so does what can be read of the file.
    int close() { return fd_.close_checked(); }
    int reader() const { return lock_.get(); }
    // Takes the place of `target`. Where that fails, false and errno.
    bool rename_to_target();
    // The file that has that place, for writing.
    FileDescriptor open_target() const;
    // Runs `use`, which may throw. No signal is acted on meanwhile.
    template <class Use>
    void undisturbed(const Use& use) {
        interrupts_.release(place_, [&] {
            use();
            return false; // the file is still to be removed
        });
    }

    // What killed processes had left behind, and was removed.
    const std::vector<std::string>& leftovers() const { return leftovers_; }

private:
    bool make(mode_t mode, const std::vector<FileIdentity>& kept);
    bool create(mode_t mode);
    int lock();

    const std::string& name() const { return place_.second; }

    std::string folder_;
    std::string target_name_; // there
    FileDescriptor directory_;
    std::vector<std::string> leftovers_;
    InterruptGuard::Place place_; // without a name: there is none
    FileDescriptor fd_;
    FileDescriptor lock_; // the same open file, so that the lock outlives close()
    InterruptGuard& interrupts_;
};

// The folder that a file is in.
std::string directory_of(const std::string& path);

} // namespace hw4
