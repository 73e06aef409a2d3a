// For ranks without a file system in common: what they write goes to the first, in whose files it is written. Rounds of
// all ranks carry it while they compute, each as soon as somebody has enough, so that no more than a few MiB of a rank
// are on their way at a time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "src/ranks/ranks.h"

namespace hw4 {

class Gathering {
public:
    explicit Gathering(Ranks& ranks);

    // Sends some bytes to one of the first rank's files; any threads of a rank that is at work call it. Waits for room.
    void put(int file, uint64_t offset, const void* data, size_t size);

    using Write = std::function<void(int file, uint64_t offset, const std::string& bytes)>;
    // Called by all: does its work while another thread carries, and returns when the work of all is done and all that
    // they have put is written, by the first. Only that thread talks to the others meanwhile. Throws what `write` does,
    // after which nothing more is written, or `work`.
    void during(const std::function<void()>& work, const Write& write);

private:
    struct Load {
        std::string bytes;
        bool is_last;
    };

    void carry(const Write& write);
    Load take();
    void end(bool nobody_carries);

    Ranks& ranks_;
    const size_t room_; // bytes
    std::mutex mutex_;
    std::condition_variable changed_;
    std::string pending_;
    bool ended_ = false;
    bool nobody_carries_ = false;
};

} // namespace hw4
