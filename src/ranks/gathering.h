// For ranks without a common file system: they send their output to the first rank, which writes it. Rounds of all
// ranks carry it during the computation; a round starts as soon as some rank has enough, so that at most a few MiB per
// rank are in transit.
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

    // Sends bytes to one of the first rank's files; any thread of a working rank may call it. Waits for buffer space.
    void put(int file, uint64_t offset, const void* data, size_t size);

    using Write = std::function<void(int file, uint64_t offset, const std::string& bytes)>;
    // Called by all ranks: does the work while another thread carries, and returns when all work is done and the first
    // rank has written everything. Only that thread communicates in the meantime. Throws what `work` or `write` throws;
    // after an error of `write` nothing more is written.
    void during(const std::function<void()>& work, const Write& write);

private:
    struct Load {
        std::string bytes;
        bool is_last;
    };

    void carry(const Write& write);
    Load take();
    void end(bool carrier_ended);

    Ranks& ranks_;
    const size_t room_; // bytes
    std::mutex mutex_;
    std::condition_variable changed_;
    std::string pending_;
    bool ended_ = false;
    bool carrier_ended_ = false;
};

} // namespace hw4
