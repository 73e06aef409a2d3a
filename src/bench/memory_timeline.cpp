#include "src/bench/memory_timeline.h"

#include <cstring>
#include <iterator>

#include "src/base/pickle.h"

namespace hw4::bench {
namespace {

using Kind = MemoryEvent::Kind;

// A snapshot ends after the one list of "device_traces": the end of the list of devices, the dictionary, the pickle.
constexpr const char* kSnapshotEnd = "eu.";

// An entry of "device_traces".
struct SnapshotEntry {
    const char* action;
    const MemoryTrack* track;
    const MemoryEvent* event;
    double start; // the track's, in seconds
};

// memory_viz ignores blocks outside a segment, and draws a block as waiting unless its free was requested.
std::vector<const char*> actions_of(Kind kind) {
    switch (kind) {
    case Kind::taken: return {"segment_alloc", "alloc"};
    case Kind::given_back: return {"free_requested", "free_completed", "segment_free"};
    case Kind::refused: break;
    }
    return {"oom"};
}

std::vector<SnapshotEntry> entries_of(const MemoryTrack& track, double start) {
    std::vector<SnapshotEntry> entries;
    for (const MemoryEvent& event : track.events)
        for (const char* const action : actions_of(event.kind)) entries.push_back({action, &track, &event, start});
    return entries;
}

// Adds the innermost frame first.
void add_frames(Pickle& pickle, const SnapshotEntry& entry) {
    const std::string names[] = {entry.event->allocation.purpose, entry.track->pass, entry.track->cell};
    pickle.add("frames");
    pickle.add_list(std::size(names), [&](size_t i) {
        pickle.add_dict([&] {
            pickle.add("filename", "hw4 bench");
            pickle.add("line", uint64_t{0});
            pickle.add("name", names[i]);
        });
    });
}

void add_entry(Pickle& pickle, const SnapshotEntry& entry) {
    const MemoryEvent& event = *entry.event;
    pickle.add_dict([&] {
        pickle.add("action", entry.action);
        if (event.kind == Kind::refused)
            pickle.add("device_free", uint64_t{event.free_bytes});
        else
            pickle.add("addr", event.allocation.address);
        pickle.add("size", uint64_t{event.allocation.bytes});
        pickle.add("stream", uint64_t{0});
        pickle.add("time_us", static_cast<uint64_t>((entry.start + event.seconds) * 1e6));
        add_frames(pickle, entry);
    });
}

// A snapshot without entries.
std::string snapshot() {
    Pickle pickle;
    pickle.add_dict([&] {
        pickle.add("segments"); // none are left at the end
        pickle.add_list(0, [](size_t) {});
        pickle.add("device_traces");
        pickle.add_list(1, [&](size_t) { pickle.add_list(0, [](size_t) {}); });
    });
    return pickle.text();
}

std::string snapshot_part(const MemoryTrack& track, double start) {
    const std::vector<SnapshotEntry> entries = entries_of(track, start);
    Pickle pickle;
    pickle.add_to_list(entries.size(), [&](size_t i) { add_entry(pickle, entries[i]); });
    return pickle.opcodes();
}

} // namespace

std::string MemoryPicture::start() const {
    const std::string empty = snapshot();
    return empty.substr(0, empty.size() - std::strlen(kSnapshotEnd));
}

std::string MemoryPicture::next(const MemoryTrack& track) {
    const double begin = seconds_;
    if (!track.events.empty()) seconds_ += track.events.back().seconds;
    return snapshot_part(track, begin);
}

std::string MemoryPicture::end() const { return kSnapshotEnd; }

} // namespace hw4::bench
