// Another run that replaces a file again and again, for as long as the object lives.
#pragma once

#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/support/temporary_folder.h"

namespace hw4::test {

class Replacing {
public:
    explicit Replacing(const std::filesystem::path& path)
        : thread_([this, path] {
              const std::string next = path.string() + ".next";
              while (!over_) {
                  write_file(next, "theirs");
                  std::filesystem::rename(next, path);
              }
          }) {}
    Replacing(const Replacing&) = delete;
    Replacing& operator=(const Replacing&) = delete;
    ~Replacing() {
        over_ = true;
        thread_.join();
    }

private:
    std::atomic<bool> over_{false};
    std::thread thread_;
};

} // namespace hw4::test
