// A text that grows and is complete at all times: what is added goes between what was there and an end that stays.
//
// The first part is put in place as any output is. What is added is written into that file, since to replace it each
// time would write all of it once more: no signal ends that halfway, and where there is no room, the file is as it was
// before. A file that is no longer the one put there is replaced, and so is one with a second name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/base/file_identity.h"
#include "src/base/interrupt.h"
#include "src/io/output_file.h"

namespace hw4 {

class GrowingFile {
public:
    // An empty name: none is written. A bad one shows at once. What takes bytes only one after the other gets them in
    // finish(). `program` is named in remarks.
    GrowingFile(std::string name, const char* program, InterruptGuard& interrupts);

    bool on_standard_output() const;

    void begin(std::string start, std::string end);
    void add(const std::string& more);
    void finish();

private:
    void replace();
    bool append(const std::string& more);

    std::string name_;
    InterruptGuard& interrupts_;
    std::unique_ptr<OutputFile> direct_; // until finish()
    std::string text_;                   // without the end
    std::string end_;
    FileIdentity identity_{}; // of what replace() has put there
};

} // namespace hw4
