// Memory over time in the formats of those who draw it. tests/program/bench_test.py reads the pickles by Python's own.
#include "src/bench/memory_timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "src/base/json_value.h"
#include "src/base/pickle.h"

namespace hw4::bench {
namespace {

using Kind = MemoryEvent::Kind;

TEST(Pickle, HasTheOpcodesOfProtocol2) {
    Pickle pickle;
    pickle.add_dict([&] {
        pickle.add("a", uint64_t{0x0102030405060708});
        pickle.add("b");
        pickle.add_list(1, [&](size_t) { pickle.add("\xc3\xa9"); });
    });
    const std::string expected = std::string("\x80\x02}(") + std::string("X\x01\0\0\0a", 6) +
                                 "\x8a\x08\x08\x07\x06\x05\x04\x03\x02\x01" + std::string("X\x01\0\0\0b", 6) + "](" +
                                 std::string("X\x02\0\0\0\xc3\xa9", 7) + "eu.";
    EXPECT_EQ(pickle.text(), expected);
}

TEST(Pickle, ListsComeInPartsOfAThousand) {
    for (const auto& [count, parts] : {std::pair<size_t, int>{0, 0}, {1, 1}, {1000, 1}, {1001, 2}, {3000, 3}}) {
        Pickle pickle;
        pickle.add_list(count, [&](size_t) { pickle.add(""); });
        const std::string text = pickle.text();
        EXPECT_EQ(std::count(text.begin(), text.end(), '('), parts) << count;
        EXPECT_EQ(std::count(text.begin(), text.end(), 'e'), parts) << count;
        EXPECT_EQ(std::count(text.begin(), text.end(), 'X'), count);
    }
}

// Takes so many bytes, is refused more, and gives them back.
MemoryTrack refused_track(const char* impl, size_t bytes) {
    MemoryTrack track;
    track.cell.impl = impl;
    track.pass = Pass::backward;
    const Allocation taken{512, bytes, purpose::kInputs};
    track.events = {{Kind::taken, 1e-6, taken, 0},
                    {Kind::refused, 2e-6, {0, 77, purpose::kScores}, 5},
                    {Kind::given_back, 3e-6, taken, 0}};
    return track;
}

std::string memory_counters(const std::vector<MemoryTrack>& tracks) {
    MemoryPicture picture(MemoryPicture::Form::counters);
    std::string text = picture.start();
    for (const MemoryTrack& track : tracks) text += picture.next(track);
    return text + picture.end();
}

} // namespace
} // namespace hw4::bench
