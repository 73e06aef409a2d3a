// The access control list of a file (a POSIX ACL, as Linux keeps it), with rights of single users and groups. Where
// there is one, the group bits of the file's mode are not what its group may do, but the most that anyone in the list
// may. A list is kept here as the bytes that it has on the disk; an empty one is none.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace hw4 {

// Of the file itself, not of one behind a link. Nothing where it cannot be told.
std::optional<std::string> access_list_of(const std::string& path);

// Gives the open file this list, or takes its own away. Whether that is so then.
bool set_access_list(int fd, const std::string& list);

// What the file's own group may do: 0 to 7.
mode_t rights_of_group(const std::string& list);

// The same list, with no more for the file's group than others have.
std::string with_group_like_others(std::string list);

} // namespace hw4
