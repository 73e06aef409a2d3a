#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "src/problem/domain.h"
#include "src/ranks/agree.h"
#include "src/ranks/gathering.h"
#include "src/ranks/launched.h"
#include "src/ranks/ordered_sum.h"
#include "src/ranks/parcel.h"
#include "src/ranks/ranks.h"
#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

Launched in_environment(const std::map<std::string, std::string>& variables) {
    return launched_as([&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
    });
}

TEST(LaunchedAs, IsOneWhereNothingSaysOtherwise) {
    EXPECT_EQ(in_environment({}).tasks, 1);
    EXPECT_EQ(in_environment({{"OMPI_COMM_WORLD_SIZE", "many"}, {"PMI_SIZE", ""}}).tasks, 1);
    EXPECT_EQ(in_environment({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}).tasks, 1) << "the script of a job";
    EXPECT_EQ(in_environment({{"OMPI_COMM_WORLD_SIZE", "1"}, {"SLURM_STEP_NUM_TASKS", "3"}}).tasks, 1) << "the nearest";
}

TEST(LaunchedAs, IsWhatAnyLauncherSays) {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
        EXPECT_EQ(in_environment({{name, "4"}}).tasks, 4) << name;
        EXPECT_EQ(in_environment({{name, "4"}}).variable, name);
    }
}

TEST(Parcel, GivesWhatWasPutIn) {
    Parcel parcel;
    parcel.put(3.5).put("text").put(int64_t{-7}).put(std::string("a\0b", 3)).put("");
    OpenedParcel opened(parcel.bytes());
    EXPECT_EQ(opened.take<double>(), 3.5);
    EXPECT_EQ(opened.take_text(), "text");
    EXPECT_EQ(opened.take<int64_t>(), -7);
    EXPECT_EQ(opened.take_text(), std::string("a\0b", 3));
    EXPECT_FALSE(opened.empty());
    EXPECT_EQ(opened.take_text(), "");
    EXPECT_TRUE(opened.empty());
    EXPECT_EQ(failure_of([&] { opened.take<char>(); }).code, ExitCode::internal);
}

TEST(ThreadRanks, TellOneAnotherWhatEachHas) {
    constexpr int kExchanges = 100;
    on_thread_ranks(4, [&](Ranks& ranks) {
        EXPECT_EQ(ranks.count(), 4);
        EXPECT_EQ(ranks.node_rank(), ranks.rank());
        EXPECT_EQ(ranks.is_first(), ranks.rank() == 0);
        for (int i = 0; i < kExchanges; ++i) {
            const std::vector<std::string> all = ranks.exchange(std::to_string(10 * i + ranks.rank()));
            for (int rank = 0; rank < 4; ++rank)
                EXPECT_EQ(all.at(static_cast<size_t>(rank)), std::to_string(10 * i + rank));
        }
    });
}

TEST(ThreadRanks, DoNotWaitForOneThatHasEnded) {
    const auto body = [](Ranks& ranks) {
        if (ranks.rank() == 2) return;
        ranks.exchange("");
    };
    EXPECT_EQ(failure_of([&] { on_thread_ranks(3, body); }), (Failure{ExitCode::internal, "another rank has ended"}));
}

TEST(ThreadRanks, WhyOneHasEndedComesBeforeThatItHas) {
    const auto body = [](Ranks& ranks) {
        if (ranks.rank() == 2) throw Error(ExitCode::io_error, "cannot read");
        ranks.exchange("");
    };
    EXPECT_EQ(failure_of([&] { on_thread_ranks(3, body); }), (Failure{ExitCode::io_error, "cannot read"}));
}

// The processors that each rank uses of `available` ones; each rank's set is given.
std::vector<int> shares(const std::vector<std::string>& sets, int available) {
    std::vector<int> list(sets.size());
    on_thread_ranks(static_cast<int>(sets.size()), [&](Ranks& ranks) {
        const auto rank = static_cast<size_t>(ranks.rank());
        list[rank] = share_of_processors(ranks, available, sets[rank]);
    });
    return list;
}

TEST(ShareOfProcessors, IsAnEqualOneWhereRanksMayRunOnTheSame) {
    EXPECT_EQ(shares({"0-7", "0-7", "0-7"}, 8), (std::vector<int>{2, 2, 2}));
    EXPECT_EQ(shares({"0", "0"}, 1), (std::vector<int>{1, 1}));
}

TEST(ShareOfProcessors, IsAllOfThoseThatOnlyOneIsBoundTo) {
    EXPECT_EQ(shares({"0-7", "8-15", "0-7"}, 8), (std::vector<int>{4, 8, 4}));
}

// How each rank fails when all ranks do `work`.
std::vector<Failure> failures(int count, const std::function<void(int rank)>& work) {
    std::vector<Failure> list(static_cast<size_t>(count));
    on_thread_ranks(count, [&](Ranks& ranks) {
        try {
            agree(ranks, [&] { work(ranks.rank()); });
        } catch (const AgreedError& error) {
            list[static_cast<size_t>(ranks.rank())] = {error.code(), error.what()};
        }
    });
    return list;
}

TEST(Agree, AllGoOnWhereNoneHasFailed) {
    EXPECT_EQ(failures(3, [](int) {}), std::vector<Failure>(3));
}

TEST(Agree, AllFailByTheFirstRanksFailure) {
    const auto work = [](int rank) {
        if (rank == 1) throw Error(ExitCode::io_error, "cannot read");
        if (rank == 2) throw std::bad_alloc();
    };
    EXPECT_EQ(failures(3, work), std::vector<Failure>(3, {ExitCode::io_error, "cannot read (rank 1)"}));
}

TEST(Agree, OfSeveralFlawsTheFirstInTheFileIsNamed) {
    const auto work = [](int rank) {
        if (rank == 0) throw Error(ExitCode::io_error, "cannot write");
        throw Flaw(rank == 2 ? Flaw::before_row(100) : Flaw::in_row(100), "of rank " + std::to_string(rank));
    };
    EXPECT_EQ(failures(4, work), std::vector<Failure>(4, {ExitCode::bad_data, "of rank 2"}));
}

TEST(Agree, WhateverIsThrownIsAFailure) {
    EXPECT_EQ(failures(2,
                       [](int rank) {
                           if (rank == 0) throw std::bad_alloc();
                       }),
              std::vector<Failure>(2, {ExitCode::out_of_memory, "out of host memory"}));
    EXPECT_EQ(failures(2,
                       [](int rank) {
                           if (rank == 0) throw std::runtime_error("odd");
                       }),
              std::vector<Failure>(2, {ExitCode::internal, "odd"}));
}

// Rank r sends bytes with the value r for file r, more than can be in transit at once.
void put_own(Gathering& gathering, const Ranks& ranks) {
    const std::string bytes(size_t{11} << 20, static_cast<char>('0' + ranks.rank()));
    gathering.put(ranks.rank(), 0, bytes.data(), bytes.size() / 2);
    gathering.put(ranks.rank(), bytes.size() / 2, bytes.data(), bytes.size() - bytes.size() / 2);
}

TEST(Gathering, BringsWhatAllHaveToTheFirst) {
    std::map<int, std::string> files; // on the first rank alone
    on_thread_ranks(3, [&](Ranks& ranks) {
        Gathering gathering(ranks);
        gathering.during(
            [&] {
                if (!ranks.is_first()) put_own(gathering, ranks);
            },
            [&](int file, uint64_t offset, const std::string& bytes) {
                EXPECT_TRUE(ranks.is_first());
                EXPECT_LE(bytes.size(), size_t{2} << 20); // the most that is in transit
                EXPECT_EQ(offset, files[file].size());
                files[file] += bytes;
            });
    });
    EXPECT_EQ(files.size(), 2U);
    for (const int rank : {1, 2})
        EXPECT_TRUE(files[rank] == std::string(size_t{11} << 20, static_cast<char>('0' + rank)));
}

TEST(Gathering, GoesOnToTheEndWhereNothingCanBeWritten) {
    int calls = 0;
    on_thread_ranks(3, [&](Ranks& ranks) {
        Gathering gathering(ranks);
        const auto gather = [&] {
            gathering.during(
                [&] {
                    if (!ranks.is_first()) put_own(gathering, ranks);
                },
                [&](int, uint64_t, const std::string&) {
                    ++calls;
                    throw Error(ExitCode::io_error, "the disk is full");
                });
        };
        if (ranks.is_first())
            EXPECT_EQ(failure_of(gather), (Failure{ExitCode::io_error, "the disk is full"}));
        else
            gather();
    });
    EXPECT_EQ(calls, 1);
}

TEST(Gathering, NoRankWaitsForRoomWhenAnotherHasEnded) {
    const auto body = [](Ranks& ranks) {
        if (ranks.rank() == 1) throw Error(ExitCode::io_error, "gone");
        Gathering gathering(ranks);
        gathering.during([&] { put_own(gathering, ranks); }, [](int, uint64_t, const std::string&) {});
    };
    EXPECT_EQ(failure_of([&] { on_thread_ranks(3, body); }), (Failure{ExitCode::io_error, "gone"}));
}

TEST(Gathering, EndsWithTheWorkThatFails) {
    const auto body = [](Ranks& ranks) {
        Gathering gathering(ranks);
        gathering.during(
            [&] {
                if (ranks.rank() == 1) throw Error(ExitCode::bad_data, "no number");
            },
            [](int, uint64_t, const std::string&) {});
    };
    EXPECT_EQ(failure_of([&] { on_thread_ranks(2, body); }), (Failure{ExitCode::bad_data, "no number"}));
}

using Numbers = std::vector<float>;

// The numbers are so far apart in magnitude that hardly any two orders of addition give the same sum.
Numbers contribution(int index, size_t count) {
    Numbers numbers;
    for (size_t i = 0; i < count; ++i)
        numbers.push_back(
            std::ldexp(1.0f + static_cast<float>(i % 97) * 0x1p-20f, (index * 7 + static_cast<int>(i)) % 25));
    return numbers;
}

void add(Numbers& sum, const Numbers& more) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
}

Numbers tree_sum(int first, int width, size_t count) {
    return node_sum(
        first, width, [&](int index) { return contribution(index, count); }, add);
}

// Every rank's result; for slices, elements outside its slice are 0.
std::vector<Numbers> sums_by(int ranks, int contributions, size_t count, const std::vector<Piece>& slices = {}) {
    std::vector<Numbers> results(static_cast<size_t>(ranks));
    on_thread_ranks(ranks, [&](Ranks& rank) {
        const auto collectives = rank.collectives();
        OrderedSum ordered(*collectives, contributions, rank.rank(), rank.count());
        std::vector<Numbers> parts;
        OrderedSum::Parts places;
        for (const SumNode& part : ordered.parts()) parts.push_back(tree_sum(part.first, part.width, count));
        for (const Numbers& part : parts) places.push_back(part.data());
        if (parts.empty()) parts.emplace_back(count);
        Numbers& result = parts.front(); // the sum replaces the first part
        Numbers slice(count);
        if (slices.empty())
            ordered.sum(places, {0, count}, result.data());
        else
            ordered.sum_slices(places, slices, slice.data());
        results[static_cast<size_t>(rank.rank())] = slices.empty() ? result : slice;
    });
    return results;
}

TEST(NodeSum, IsTheTreeOfTheContract) {
    const auto text = [](int width) {
        return node_sum(
            0, width, [](int index) { return std::to_string(index); },
            [](std::string& sum, const std::string& more) { sum = "(" + sum + "+" + more + ")"; });
    };
    EXPECT_EQ(text(1), "0");
    EXPECT_EQ(text(2), "(0+1)");
    EXPECT_EQ(text(3), "((0+1)+2)");
    EXPECT_EQ(text(6), "(((0+1)+(2+3))+(4+5))");
    EXPECT_EQ(text(8), "(((0+1)+(2+3))+((4+5)+(6+7)))");
}

TEST(PartsOfRanks, AreOneEachWherePowersOfTwoDivide) {
    for (const int ranks : {1, 2, 4, 8}) {
        const std::vector<SumNode> parts = parts_of_ranks(8, ranks);
        ASSERT_EQ(parts.size(), static_cast<size_t>(ranks));
        for (int rank = 0; rank < ranks; ++rank)
            EXPECT_EQ(parts[static_cast<size_t>(rank)], (SumNode{rank * 8 / ranks, 8 / ranks, rank}));
    }
}

TEST(PartsOfRanks, AreWholeNodesElsewhere) {
    EXPECT_EQ(parts_of_ranks(8, 3), (std::vector<SumNode>{{0, 2, 0}, {2, 2, 1}, {4, 1, 1}, {5, 1, 2}, {6, 2, 2}}));
    EXPECT_EQ(parts_of_ranks(2, 3), (std::vector<SumNode>{{0, 1, 1}, {1, 1, 2}})); // no part for the first rank
}

TEST(OrderedSum, HasTheSameBytesForEveryNumberOfRanks) {
    constexpr size_t kCount = 1001; // not divisible by any number of ranks
    for (const int contributions : {1, 5, 8, 12}) {
        const Numbers wanted = tree_sum(0, contributions, kCount);
        for (const int ranks : {1, 2, 3, 4, 5, 7})
            for (const Numbers& sums : sums_by(ranks, contributions, kCount))
                EXPECT_EQ(sums, wanted) << contributions << " contributions, " << ranks << " ranks";
    }
}

TEST(OrderedSum, TakesMoreThanFitsAtOnceAndLessThanRanks) {
    for (const size_t count : {size_t{1}, size_t{3}, size_t{300001}})
        for (const Numbers& sums : sums_by(4, 4, count)) EXPECT_EQ(sums, tree_sum(0, 4, count));
}

TEST(OrderedSum, GivesEveryRankItsSlice) {
    constexpr size_t kCount = 200000;
    const std::vector<Piece> slices = {{10, 3}, {500, 150000}, {160000, 0}, {13, 99}};
    const Numbers wanted = tree_sum(0, 6, kCount);
    const std::vector<Numbers> sums = sums_by(4, 6, kCount, slices);
    for (size_t rank = 0; rank < slices.size(); ++rank) {
        const auto [first, count] = slices[rank];
        Numbers expected(kCount);
        std::copy_n(wanted.begin() + static_cast<std::ptrdiff_t>(first), count,
                    expected.begin() + static_cast<std::ptrdiff_t>(first));
        EXPECT_EQ(sums[rank], expected) << rank;
    }
}

TEST(ExchangedNumbers, AddsUpGathersAndPassesOn) {
    on_thread_ranks(3, [](Ranks& ranks) {
        const auto collectives = ranks.collectives();
        const auto mine = static_cast<float>(ranks.rank());
        Numbers sums = {mine, 1};
        collectives->sum(sums.data(), 2);
        EXPECT_EQ(sums, (Numbers{3, 3}));
        Numbers all = {mine, mine, mine, mine};
        collectives->all_gather(all.data(), {{0, 1}, {1, 1}, {2, 2}});
        EXPECT_EQ(all, (Numbers{0, 1, 2, 2}));
        const Numbers sent = {mine, mine + 10, mine + 20};
        Numbers received(3);
        collectives->all_to_all(sent.data(), {{0, 1}, {1, 1}, {2, 1}}, received.data(), {{2, 1}, {1, 1}, {0, 1}});
        EXPECT_EQ(received, (Numbers{mine * 10 + 2, mine * 10 + 1, mine * 10}));
    });
}

} // namespace
} // namespace hw4
