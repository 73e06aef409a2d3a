// Output where not everything is ours: what we may not write, and directories in which everybody may make files, where
// nothing that a stranger left is trusted.
#include <fcntl.h>
#include <sys/xattr.h>

#include "src/io/access_list.h"
#include "src/io/output_file.h"
#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

namespace fs = std::filesystem;
using test::Failure;
using test::failure_of;
using test::mode_of;
using test::read_file;
using test::write_file;
using Names = std::vector<std::string>;

// In a child process that is not root: how opening `path` fails.
void try_as_ordinary_user(const std::string& path) {
    test::become_ordinary_user();
    InterruptGuard interrupts;
    const Failure failure = failure_of([&] { OutputFile file(path, interrupts); });
    std::fputs(failure.message.c_str(), stderr);
    ::_exit(static_cast<int>(failure.code));
}

TEST(OutputDeath, RefusesWhatItMayNotWrite) {
    if (!test::can_be_ordinary_user()) GTEST_SKIP() << "root here cannot become another user";
    const test::TemporaryFolder folder;
    const std::string path = folder / "a.out";
    write_file(path, "old");
    ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
    ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
    EXPECT_EXIT(try_as_ordinary_user(path), ::testing::ExitedWithCode(73), "a.out: cannot write: Permission denied$");
    ASSERT_EQ(::chmod(folder.path().c_str(), 0555), 0);
    EXPECT_EXIT(try_as_ordinary_user(folder / "new"), ::testing::ExitedWithCode(73),
                "new: cannot create a file in .*: Permission denied$");
    ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
    EXPECT_EQ(read_file(path), "old");
    EXPECT_EQ(folder.names(), Names{"a.out"});
}

// A directory like /tmp, in which a stranger, user 1, and the directory's owner, user 2, have been before us.
class SharedDirectory : public ::testing::Test {
protected:
    static constexpr uid_t kStranger = 1;
    static constexpr uid_t kOwner = 2;
    static constexpr uid_t kOrdinary = 65534; // see become_ordinary_user()

    void SetUp() override {
        if (::geteuid() != 0) GTEST_SKIP() << "only root can give files to others";
        if (!test::can_be_ordinary_user()) GTEST_SKIP() << "root here cannot become another user";
        ASSERT_EQ(::chown(folder_.path().c_str(), kOwner, kOwner), 0);
        ASSERT_EQ(::chmod(folder_.path().c_str(), 01777), 0);
        write_file(folder_ / "victim", "precious");
    }

    void plant_link(uid_t owner) {
        fs::remove(path_);
        fs::create_symlink("victim", path_);
        ASSERT_EQ(::lchown(path_.c_str(), owner, owner), 0);
    }
    void plant_file(uid_t owner, gid_t group, mode_t mode) {
        fs::remove(path_);
        write_file(path_, "old");
        ASSERT_EQ(::chown(path_.c_str(), owner, group), 0);
        ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
    }

    static Failure failure_to_put(const std::string& path, const std::string& text) {
        InterruptGuard interrupts;
        return failure_of([&] {
            OutputFile file(path, interrupts);
            file.write(text.data(), text.size());
            file.commit(false);
        });
    }
    // In a child process that is not root.
    static void put_as_ordinary_user(const std::string& path) {
        test::become_ordinary_user();
        const Failure failure = failure_to_put(path, "new");
        std::fputs(failure.message.c_str(), stderr);
        ::_exit(static_cast<int>(failure.code));
    }

    test::TemporaryFolder folder_;
    const std::string path_ = folder_ / "a.out";
};

TEST_F(SharedDirectory, DoesNotFollowAStrangersLink) {
    const Failure planted = {ExitCode::cannot_create,
                             path_ + ": is another user's symbolic link in a shared directory"};
    plant_link(kStranger);
    EXPECT_EQ(failure_to_put(path_, "new"), planted);
    EXPECT_EQ(read_file(folder_ / "victim"), "precious");
    fs::remove(folder_ / "victim"); // nor does it make the file that the link names
    EXPECT_EQ(failure_to_put(path_, "new"), planted);
    fs::create_symlink(path_, folder_ / "ours");
    EXPECT_EQ(failure_to_put(folder_ / "ours", "new"), planted);
    EXPECT_EQ(folder_.names(), (Names{"a.out", "ours"}));
}

TEST_F(SharedDirectory, FollowsOurLinksAndThoseOfTheDirectorysOwner) {
    for (const uid_t owner : {uid_t{0}, kOwner}) {
        plant_link(owner);
        EXPECT_EQ(failure_to_put(path_, "new from " + std::to_string(owner)), Failure{});
        EXPECT_EQ(read_file(folder_ / "victim"), "new from " + std::to_string(owner));
    }
}

TEST_F(SharedDirectory, FollowsAStrangersLinkInAnOrdinaryDirectory) {
    ASSERT_EQ(::chmod(folder_.path().c_str(), 0777), 0); // who can change all names there needs no link
    plant_link(kStranger);
    EXPECT_EQ(failure_to_put(path_, "new"), Failure{});
    EXPECT_EQ(read_file(folder_ / "victim"), "new");
}

TEST_F(SharedDirectory, DoesNotWriteToAStrangersFifo) {
    ASSERT_EQ(::mkfifo(path_.c_str(), 0666), 0);
    ASSERT_EQ(::chown(path_.c_str(), kStranger, kStranger), 0);
    const FileDescriptor reader(::open(path_.c_str(), O_RDONLY | O_NONBLOCK));
    EXPECT_EQ(failure_to_put(path_, "new"),
              (Failure{ExitCode::cannot_create, path_ + ": is another user's FIFO in a shared directory"}));
    ASSERT_EQ(::chown(path_.c_str(), 0, 0), 0);
    EXPECT_EQ(failure_to_put(path_, "new"), Failure{});
}

// The name of a stranger's file is not to be had there: rename() would say so when all is computed.
TEST_F(SharedDirectory, RefusesAStrangersFileAtOnce) {
    plant_file(kStranger, kStranger, 0666);
    EXPECT_EXIT(try_as_ordinary_user(path_), ::testing::ExitedWithCode(73),
                "a.out: is another user's file in a shared directory$");
    EXPECT_EQ(read_file(path_), "old");
    EXPECT_EQ(folder_.names(), (Names{"a.out", "victim"}));
}

TEST_F(SharedDirectory, ReplacesAStrangersFileWhereItMay) {
    plant_file(kStranger, kStranger, 0666);
    ASSERT_EQ(::chmod(folder_.path().c_str(), 0777), 0);
    EXPECT_EXIT(put_as_ordinary_user(path_), ::testing::ExitedWithCode(0), "");
    EXPECT_EQ(read_file(path_), "new");
}

TEST_F(SharedDirectory, AModeThatAStrangerChoseIsNarrowedByTheUmask) {
    plant_file(kStranger, kStranger, 0666);
    const mode_t before = ::umask(022);
    EXPECT_EQ(failure_to_put(path_, "new"), Failure{});
    ::umask(before);
    EXPECT_EQ(mode_of(path_), 0644u);
}

TEST_F(SharedDirectory, SetUserIdOfAStrangersFileDoesNotBecomeOurs) {
    plant_file(kStranger, kStranger, 07777);
    const mode_t before = ::umask(022);
    EXPECT_EQ(failure_to_put(path_, ""), Failure{});
    ::umask(before);
    EXPECT_EQ(mode_of(path_), 0755u);
}

gid_t group_of(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) throw std::runtime_error(with_errno(path));
    return status.st_gid;
}

TEST_F(SharedDirectory, KeepsTheGroupOfTheOldFile) {
    plant_file(0, kStranger, 0660);
    EXPECT_EQ(failure_to_put(path_, "new"), Failure{});
    EXPECT_EQ(group_of(path_), gid_t{kStranger});
    EXPECT_EQ(mode_of(path_), 0660u);
}

TEST_F(SharedDirectory, GivesTheRightsOfTheOldGroupToNoOther) {
    for (const auto& [old_mode, new_mode] :
         {std::pair(0660u, 0600u), std::pair(0664u, 0644u), std::pair(0606u, 0606u)}) {
        plant_file(kOrdinary, kStranger, old_mode);
        EXPECT_EXIT(put_as_ordinary_user(path_), ::testing::ExitedWithCode(0), "");
        EXPECT_EQ(group_of(path_), gid_t{kOrdinary});
        EXPECT_EQ(mode_of(path_), new_mode) << std::oct << old_mode;
    }
}

// Files and folders with access control lists, which give user 1234 rights of his own.
class OutputAccessList : public SharedDirectory {
protected:
    // What it is about (1 owner, 2 a user, 4 the group, 16 the mask, 32 others), rights, whose in two halves.
    using Entry = std::array<uint16_t, 4>;
    static std::string list(uint16_t group, uint16_t others, uint16_t mask = 6) {
        constexpr uint16_t kNo = 0xffff;
        const uint32_t version = 2;
        const std::array<Entry, 5> entries = {
            {{1, 6, kNo, kNo}, {2, 6, 1234, 0}, {4, group, kNo, kNo}, {16, mask, kNo, kNo}, {32, others, kNo, kNo}}};
        return test::bytes_of(&version, 1) + test::bytes_of(entries.data(), entries.size());
    }

    void SetUp() override {
        SharedDirectory::SetUp();
        write_file(path_, "old");
        if (!give(path_, "access", list(0, 0)) && errno == EOPNOTSUPP)
            GTEST_SKIP() << "no access control lists in " << folder_.path();
        fs::remove(path_);
    }
    static bool give(const std::string& path, const std::string& kind, const std::string& list) {
        return ::setxattr(path.c_str(), ("system.posix_acl_" + kind).c_str(), list.data(), list.size(), 0) == 0;
    }
    void plant_file_with_list(uid_t owner, gid_t group, const std::string& list) {
        plant_file(owner, group, 0600);
        ASSERT_TRUE(give(path_, "access", list)) << std::strerror(errno);
    }
};

TEST_F(OutputAccessList, IsKept) {
    plant_file_with_list(0, 0, list(0, 4));
    EXPECT_EQ(mode_of(path_), 0664u) << "which is not what the group may do";
    EXPECT_EQ(failure_to_put(path_, "new"), Failure{});
    EXPECT_EQ(access_list_of(path_), list(0, 4));
    EXPECT_EQ(mode_of(path_), 0664u);
}

TEST_F(OutputAccessList, GivesTheRightsOfTheOldGroupToNoOther) {
    plant_file_with_list(kOrdinary, kStranger, list(6, 4));
    EXPECT_EXIT(put_as_ordinary_user(path_), ::testing::ExitedWithCode(0), "");
    EXPECT_EQ(group_of(path_), gid_t{kOrdinary});
    EXPECT_EQ(access_list_of(path_), list(4, 4));
}

// His file's group bits are those of the mask, and user 1234's, not of a group.
TEST_F(OutputAccessList, OfAStrangersFileIsNotKeptButBinds) {
    const mode_t before = ::umask(0);
    for (const std::string& of_group_and_mask : {list(4, 0, 6), list(6, 0, 4)}) {
        plant_file_with_list(kStranger, kStranger, of_group_and_mask);
        EXPECT_EQ(failure_to_put(path_, "new"), Failure{});
        EXPECT_EQ(access_list_of(path_), "");
        EXPECT_EQ(mode_of(path_), 0640u);
    }
    ::umask(before);
}

TEST_F(OutputAccessList, OfTheFolderIsForNewFiles) {
    ASSERT_TRUE(give(folder_.path(), "default", list(4, 0))) << std::strerror(errno);
    write_file(folder_ / "any", "new");
    ASSERT_NE(access_list_of(folder_ / "any"), "");
    EXPECT_EQ(failure_to_put(path_, "new"), Failure{});
    EXPECT_EQ(access_list_of(path_), access_list_of(folder_ / "any"));
    EXPECT_EQ(mode_of(path_), mode_of(folder_ / "any"));
}

TEST_F(OutputAccessList, OfTheFolderIsNotForFilesThatHadNone) {
    plant_file(0, 0, 0660);
    ASSERT_TRUE(give(folder_.path(), "default", list(4, 0))) << std::strerror(errno);
    EXPECT_EQ(failure_to_put(path_, "new"), Failure{});
    EXPECT_EQ(access_list_of(path_), "");
    EXPECT_EQ(mode_of(path_), 0660u);
}

} // namespace
} // namespace hw4
