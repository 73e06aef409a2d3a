// A text that grows and is complete at all times: each part goes between what was there and an end that stays. A
// regular file is replaced after each part; what takes bytes only one after the other gets them all in finish().
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "src/base/interrupt.h"
#include "src/io/output_file.h"

namespace hw4 {

class GrowingFile {
public:
    // With an empty name nothing is written. A bad name shows at once. Throws Error.
    GrowingFile(std::string name, InterruptGuard& interrupts) : name_(std::move(name)), interrupts_(interrupts) {
        if (name_.empty()) return;
        auto opened = std::make_unique<OutputFile>(name_, interrupts_);
        if (!opened->random_access()) in_order_ = std::move(opened);
    }

    void begin(std::string start, std::string end) {
        text_ = std::move(start);
        end_ = std::move(end);
        replace();
    }
    void add(const std::string& more) {
        text_ += more;
        if (!more.empty()) replace();
    }
    void finish() {
        if (in_order_) write_to(*std::exchange(in_order_, nullptr));
    }

private:
    void replace() {
        if (name_.empty() || in_order_) return;
        OutputFile file(name_, interrupts_);
        write_to(file);
    }
    void write_to(OutputFile& file) const {
        file.write(text_.data(), text_.size());
        file.write(end_.data(), end_.size());
        file.commit(false);
    }

    std::string name_;
    InterruptGuard& interrupts_;
    std::unique_ptr<OutputFile> in_order_; // until finish()
    std::string text_;                     // without the end
    std::string end_;
};

} // namespace hw4
