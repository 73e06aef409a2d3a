// Which file it is, whatever its name.
#pragma once

#include <sys/stat.h>

namespace hw4 {

struct FileIdentity {
    dev_t device;
    ino_t inode;

    friend bool operator==(const FileIdentity& a, const FileIdentity& b) {
        return a.device == b.device && a.inode == b.inode;
    }
};

inline FileIdentity identity_of(const struct stat& status) { return {status.st_dev, status.st_ino}; }

inline bool same_file(const struct stat& a, const struct stat& b) { return identity_of(a) == identity_of(b); }

} // namespace hw4
