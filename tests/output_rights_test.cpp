// Output where not everything is ours: what we may not write, and directories in which everybody may make files, where
// nothing that a stranger left is trusted.
#include <fcntl.h>

#include "../src/output_file.h"
#include "temporary_folder.h"

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

} // namespace
} // namespace hw4
