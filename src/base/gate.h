// Where threads wait for a common start. Opening it takes no memory and cannot fail, unlike a std::promise, whose
// destructor makes an exception for whoever waits.
#pragma once

#include <condition_variable>
#include <mutex>

namespace hw4 {

class Gate {
public:
    void wait() {
        std::unique_lock<std::mutex> lock(mutex_);
        opened_.wait(lock, [this] { return open_; });
    }
    void open() {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            open_ = true;
        }
        opened_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable opened_;
    bool open_ = false;
};

} // namespace hw4
