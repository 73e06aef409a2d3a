#include "src/run/case_line.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>
#include <vector>

#include "src/run/first_failure.h"
#include "tests/support/sleeping_threads.h"

namespace hw4 {
namespace {

class Line : public ::testing::Test {
protected:
    CaseOnItsWay& add() {
        line_.add(std::make_unique<CaseOnItsWay>(run_, added_));
        return *line_.wait(added_++);
    }
    void end(CaseOnItsWay& ended) {
        line_.end(ended, [this](const CaseOnItsWay& over) { settled_.push_back(over.number); });
    }

    RunCase run_;
    CaseLine line_{3};
    int added_ = 0;
    std::vector<int> settled_;
};

TEST_F(Line, SettlesCasesInTheirOrder) {
    CaseOnItsWay& first = add();
    CaseOnItsWay& second = add();
    CaseOnItsWay& third = add();
    end(second);
    EXPECT_EQ(settled_, std::vector<int>{});
    end(first);
    EXPECT_EQ(settled_, (std::vector<int>{0, 1}));
    EXPECT_EQ(line_.wait(2), &third);
    end(third);
    EXPECT_EQ(settled_, (std::vector<int>{0, 1, 2}));
}

TEST_F(Line, SettlesNoMoreAfterOneThatCouldNotBe) {
    CaseOnItsWay& first = add();
    CaseOnItsWay& second = add();
    EXPECT_THROW(line_.end(first, [](const CaseOnItsWay&) { throw std::runtime_error("no memory"); }),
                 std::runtime_error);
    end(second);
    EXPECT_EQ(settled_, std::vector<int>{});
}

TEST_F(Line, HasRoomForSomeAndForMoreWhenOneIsSettled) {
    CaseOnItsWay& first = add();
    add();
    EXPECT_TRUE(line_.wait_for_room());
    add();
    bool room = false;
    std::thread opener([&] { room = line_.wait_for_room(); });
    EXPECT_TRUE(test::other_threads_sleep_soon());
    EXPECT_FALSE(room);
    end(first);
    opener.join();
    EXPECT_TRUE(room);
}

TEST_F(Line, GivesTheNextWhenItIsThereAndNoneAfterTheLast) {
    std::vector<CaseOnItsWay*> given;
    std::thread waiting([&] {
        for (int number = 0; number < 2; ++number) given.push_back(line_.wait(number));
    });
    EXPECT_TRUE(test::other_threads_sleep_soon());
    CaseOnItsWay& first = add();
    EXPECT_TRUE(test::other_threads_sleep_soon());
    line_.close();
    waiting.join();
    EXPECT_EQ(given, (std::vector<CaseOnItsWay*>{&first, nullptr}));
}

TEST_F(Line, KeepsTheFirstFailure) {
    CaseOnItsWay& failed = add();
    line_.fail(failed, std::make_exception_ptr(std::runtime_error("first")));
    line_.fail(failed, std::make_exception_ptr(std::logic_error("second")));
    EXPECT_TRUE(failed.failed);
    EXPECT_THROW(std::rethrow_exception(run_.failure), std::runtime_error);
}

TEST_F(Line, StopWakesEverybody) {
    for (int i = 0; i < 3; ++i) add();
    std::thread opener([&] { EXPECT_FALSE(line_.wait_for_room()); });
    std::thread feeder([&] { EXPECT_THROW(line_.wait(3), Stopped); });
    EXPECT_TRUE(test::other_threads_sleep_soon());
    int woken = 0;
    line_.stop([&](const CaseOnItsWay&) { ++woken; });
    opener.join();
    feeder.join();
    EXPECT_EQ(woken, 3);
}

// Who has settled a case may have taken its files away.
TEST_F(Line, StopWakesNoCaseThatIsOver) {
    add();
    int woken = 0;
    line_.end(*line_.wait(0), [&](const CaseOnItsWay&) { line_.stop([&](const CaseOnItsWay&) { ++woken; }); });
    EXPECT_EQ(woken, 0);
}

} // namespace
} // namespace hw4
