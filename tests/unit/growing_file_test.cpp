#include "src/io/output_file.h"

#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

using test::read_file;

class Growing : public ::testing::Test {
protected:
    InterruptGuard interrupts_;
    test::TemporaryFolder folder_;
    std::string path_ = folder_ / "a.json";
};

TEST_F(Growing, IsCompleteAfterEachPart) {
    test::write_file(path_, "old");
    GrowingFile file(path_, interrupts_);
    EXPECT_EQ(read_file(path_), "old");
    file.begin("[1", "]");
    EXPECT_EQ(read_file(path_), "[1]");
    file.add(", 2");
    EXPECT_EQ(read_file(path_), "[1, 2]");
    file.add("");
    file.add(", 3");
    file.finish();
    EXPECT_EQ(read_file(path_), "[1, 2, 3]");
    EXPECT_EQ(folder_.names(), std::vector<std::string>{"a.json"});
}

TEST_F(Growing, AFifoGetsAllAtTheEnd) {
    ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
    std::string got;
    std::thread reader([&] { got = read_file(path_); });
    GrowingFile file(path_, interrupts_);
    file.begin("[1", "]");
    file.add(", 2");
    file.finish();
    reader.join();
    EXPECT_EQ(got, "[1, 2]");
}

TEST_F(Growing, WithoutANameIsNothing) {
    GrowingFile file("", interrupts_);
    file.begin("1", ".");
    file.add("2");
    file.finish();
    EXPECT_TRUE(folder_.names().empty());
}

} // namespace
} // namespace hw4
