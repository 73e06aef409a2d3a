// An output that is complete or absent: its bytes go to a temporary file in the same directory, which is renamed over
// the output at the end. Until then an existing output stays unchanged. An output that is not a regular file (a device,
// a FIFO, standard output) is written directly.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "src/base/error.h"
#include "src/base/file_descriptor.h"
#include "src/base/interrupt.h"
#include "src/io/gzip.h"
#include "src/io/npy.h"

namespace hw4 {

// The file's status behind a name; nothing where there is none. Throws Error with `code` where the file system fails.
std::optional<struct stat> status_of(const std::string& path, ExitCode code);
// The end of a chain of symbolic links; the file need not exist. Throws Error with `code`.
std::string behind_links(const std::string& path, ExitCode code);
std::string directory_of(const std::string& path);

class OutputFile {
public:
    // Creates the temporary file, so that an unwritable directory shows before any work is done. The name "-" is
    // standard output, which is written from its offset. `form`: the format around the written numbers.
    OutputFile(const std::string& name, InterruptGuard& interrupts, const OutputForm& form = {});
    ~OutputFile();
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;

    // The temporary file, for other ranks that write parts of it.
    struct Temporary {
        std::string path;
        uint64_t inode = 0; // shows other ranks that they see the same file
    };
    // Part of an output whose temporary file another rank has created and will publish. Throws Error (cannot_create)
    // where that file is not visible here.
    OutputFile(const std::string& name, const Temporary& of_another, const OutputForm& form);
    // Needs random access.
    Temporary temporary() const;

    // An output that `send` writes: another rank's part, or an output in several files. Any number of threads call it
    // at once.
    using Send = std::function<void(uint64_t offset, const void* data, size_t size)>;
    OutputFile(const std::string& name, Send send);

    void write(const void* data, size_t size);

    // Whether write_at() works: a device, a FIFO, standard output or gzip takes bytes only one after the other.
    bool random_access() const { return !in_order_ && !gzip_; }
    // Any number of threads may call this at once. Offset 0 is after the form's head.
    void write_at(uint64_t offset, const void* data, size_t size);
    // Reserves the whole output's space, so that a full disk shows early; does nothing where the file system cannot.
    void reserve(uint64_t size);

    // Checks that everything is written and closed; with `sync`, also on the disk. The name is still temporary.
    void finish(bool sync);
    // Renames the finished file to the output. Where the output cannot be replaced, the finished file stays and the
    // Error names it. With `sync`, the new name is on the disk too.
    void publish(bool sync);
    void commit(bool sync) {
        finish(sync);
        publish(sync);
    }

private:
    OutputFile(InterruptGuard& interrupts, const std::string& name); // without a form
    void open(const std::string& name);
    void open_standard_output();
    void create_temporary(const std::optional<struct stat>& old);
    void take_mode_of(const struct stat& old) const;
    void write_plain(const void* data, size_t size);
    template <class WriteSome>
    void write_all(const void* data, size_t size, const WriteSome& write_some);
    [[noreturn]] void fail(ExitCode code, const std::string& what) const;
    void close(bool sync);
    void sync_directory() const;

    std::string path_;                     // the name for messages
    InterruptGuard* interrupts_ = nullptr; // null for a part of another rank's output
    std::string target_;                   // the file to replace, after symbolic links
    std::string temporary_;                // empty: none, or already renamed
    FileDescriptor fd_;
    bool in_order_ = false;
    Send send_;
    uint64_t sent_ = 0;              // by write()
    std::unique_ptr<GzipSink> gzip_; // null: not compressed
    uint64_t head_bytes_ = 0;        // of the form, before offset 0
};

// A growing text that is complete at all times: each new part goes between the earlier parts and a fixed end. A regular
// file is replaced after each part; an output that is written in order gets all parts in finish().
class GrowingFile {
public:
    // An empty name writes nothing. A bad name shows immediately. Throws Error.
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
    std::string text_;                     // without the fixed end
    std::string end_;
};

} // namespace hw4
