// The cases of a run, for tests of the conveyor.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/interrupt.h"
#include "src/run/conveyor.h"
#include "tests/support/temporary_folder.h"

namespace hw4 {

struct Names {
    std::string input;
    std::string output;
};

// Opens each case on demand, and records how each ended, in the order in which they were settled.
class ListedCases : public RunCases {
public:
    ListedCases(std::vector<Names> list, InterruptGuard& interrupts)
        : list_(std::move(list)), interrupts_(interrupts), cases_(list_.size()) {}

    RunCase* next() override {
        if (next_ == list_.size() || !may_open(static_cast<int>(next_))) return nullptr;
        const Names& names = list_[next_];
        Opened& opened = cases_[next_++];
        try {
            opened.input = std::make_unique<CaseReader>(names.input);
            opened.output = std::make_unique<OutputFile>(names.output, interrupts_);
            opened.run.input = opened.input.get();
            opened.run.output = opened.output.get();
        } catch (const Error&) {
            opened.run.failure = std::current_exception();
        }
        ++open;
        return &opened.run;
    }
    void give_up() override { given_up = true; }

    void settled(RunCase& of) override {
        Opened& next_in_order = cases_[ends.size()];
        EXPECT_EQ(&of, &next_in_order.run) << ends.size();
        ends.push_back(failure_of([&] {
            if (of.failure) std::rethrow_exception(of.failure);
            of.output->commit(false);
        }));
        next_in_order.output.reset();
        --open;
        ++over;
    }

    std::function<bool(int number)> may_open = [](int) { return true; };
    std::vector<Failure> ends; // for the settled cases
    std::atomic<int> open{0};
    std::atomic<int> over{0};
    std::atomic<bool> given_up{false};

private:
    struct Opened {
        std::unique_ptr<CaseReader> input;
        std::unique_ptr<OutputFile> output;
        RunCase run;
    };
    std::vector<Names> list_;
    InterruptGuard& interrupts_;
    std::vector<Opened> cases_;
    size_t next_ = 0;
};

} // namespace hw4
