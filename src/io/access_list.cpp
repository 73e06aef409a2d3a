#include "src/io/access_list.h"

#include <sys/xattr.h>

#include <cerrno>

namespace hw4 {
namespace {

constexpr const char* kAttribute = "system.posix_acl_access";
constexpr size_t kMostBytes = 65536; // of any attribute

// Four bytes of version, then entries of eight: what it is about and its rights, two bytes each with the low one first,
// and a number of a user or group.
constexpr size_t kHeader = 4;
constexpr size_t kEntry = 8;
constexpr size_t kRights = 2; // their place in an entry
constexpr char kGroup = 0x04; // the file's own
constexpr char kMask = 0x10;  // the most for all but the owner and others
constexpr char kOthers = 0x20;

std::optional<size_t> place_of(const std::string& list, char about) {
    for (size_t at = kHeader; at + kEntry <= list.size(); at += kEntry)
        if (list[at] == about) return at + kRights;
    return std::nullopt;
}

mode_t rights(const std::string& list, char about, mode_t without_entry) {
    const auto place = place_of(list, about);
    return place ? static_cast<mode_t>(list[*place] & 07) : without_entry;
}

bool has_none(int error) { return error == ENODATA || error == EOPNOTSUPP || error == ENOSYS; }

} // namespace

std::optional<std::string> access_list_of(const std::string& path) {
    std::string list(kMostBytes, '\0');
    const ssize_t size = ::lgetxattr(path.c_str(), kAttribute, list.data(), list.size());
    if (size < 0 && !has_none(errno)) return std::nullopt;
    list.resize(size < 0 ? 0 : static_cast<size_t>(size));
    return list;
}

bool set_access_list(int fd, const std::string& list) {
    if (list.empty()) return ::fremovexattr(fd, kAttribute) == 0 || has_none(errno);
    return ::fsetxattr(fd, kAttribute, list.data(), list.size(), 0) == 0;
}

mode_t rights_of_group(const std::string& list) { return rights(list, kGroup, 0) & rights(list, kMask, 07); }

std::string with_group_like_others(std::string list) {
    if (const auto place = place_of(list, kGroup))
        list[*place] = static_cast<char>(static_cast<mode_t>(list[*place]) & rights(list, kOthers, 0));
    return list;
}

} // namespace hw4
