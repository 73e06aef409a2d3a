#include "src/ranks/gathering.h"

#include <algorithm>
#include <chrono>
#include <exception>

#include "src/base/parallel.h"
#include "src/ranks/parcel.h"

namespace hw4 {
namespace {

constexpr size_t kMostRoom = size_t{4} << 20; // per rank
constexpr size_t kRoomOfAll = size_t{1} << 30;
constexpr size_t kLeastRoom = size_t{64} << 10;
// A round begins when all ranks have joined: a rank with little to send joins too, because the others wait for it.
constexpr std::chrono::milliseconds kPatience{2};

} // namespace

Gathering::Gathering(Ranks& ranks)
    : ranks_(ranks), room_(std::clamp(kRoomOfAll / static_cast<size_t>(ranks.count()), kLeastRoom, kMostRoom)) {}

void Gathering::put(int file, uint64_t offset, const void* data, size_t size) {
    const char* const bytes = static_cast<const char*>(data);
    const size_t step = room_ / 2;
    for (size_t done = 0; done < size; done += step) {
        const std::string some(bytes + done, std::min(step, size - done));
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return pending_.size() + some.size() <= room_ || carrier_ended_; });
        if (carrier_ended_) throw Error(ExitCode::internal, "another rank has ended");
        pending_ += Parcel().put(file).put(offset + done).put(some).bytes();
        changed_.notify_all();
    }
}

void Gathering::end(bool carrier_ended) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        ended_ = true;
        carrier_ended_ = carrier_ended_ || carrier_ended;
    }
    changed_.notify_all();
}

Gathering::Load Gathering::take() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, kPatience, [&] { return ended_ || pending_.size() >= room_ / 2; });
    Load load{"", ended_};
    load.bytes.swap(pending_);
    changed_.notify_all();
    return load;
}

void Gathering::carry(const Write& write) {
    std::exception_ptr failure;
    for (bool are_last = false; !are_last;) {
        const Load mine = take();
        const std::string state = std::string(mine.is_last ? "last" : "") + (mine.bytes.empty() ? "" : "+");
        are_last = true;
        bool is_any = false;
        for (const std::string& rank : ranks_.exchange(state)) {
            are_last = are_last && rank.rfind("last", 0) == 0;
            is_any = is_any || (!rank.empty() && rank.back() == '+');
        }
        if (!is_any) continue;
        for (const std::string& rank : ranks_.to_first(mine.bytes))
            for (OpenedParcel parcel(rank); !parcel.empty();) {
                const int file = parcel.take<int>();
                const auto offset = parcel.take<uint64_t>();
                const std::string bytes = parcel.take_text();
                if (failure) continue; // the other ranks continue to their end
                try {
                    write(file, offset, bytes);
                } catch (...) {
                    failure = std::current_exception();
                }
            }
    }
    if (failure) std::rethrow_exception(failure);
}

void Gathering::during(const std::function<void()>& work, const Write& write) {
    std::exception_ptr failure;
    std::exception_ptr of_work; // perhaps only because no thread carries any more
    {
        WorkerThreads carrier;
        const auto carry_all = [&](int) {
            try {
                carry(write);
            } catch (...) {
                failure = std::current_exception();
                end(true);
            }
        };
        bool has_carrier = false;
        try {
            carrier.start(1, carry_all);
            has_carrier = true;
            work();
        } catch (...) {
            of_work = std::current_exception();
        }
        end(false);
        if (!has_carrier) carry_all(0); // no thread could be started; the other ranks wait for a message from this one
    }
    for (const std::exception_ptr& either : {failure, of_work})
        if (either) std::rethrow_exception(either);
}

} // namespace hw4
