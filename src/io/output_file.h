// Writing the result so that nothing is ever lost: into a temporary file beside the output, which takes the
// output's name only when it is complete. Until then an existing output stands untouched.
//
// A mount point, such as a container's volume of one file, cannot be replaced. The complete result is copied into it,
// once room is reserved where the file system can promise any. So there is one failure that an existing output does not
// survive: that of this last copy itself.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/file_identity.h"
#include "src/base/interrupt.h"
#include "src/io/case_file.h"
#include "src/io/gzip_sink.h"
#include "src/io/output_form.h"
#include "src/io/temporary_file.h"

namespace hw4 {

// Throws Error (usage) when `output` names the input file: by the same path, a link or a hard link.
void refuse_overwriting(const CaseReader& input, const std::string& output);

// Throws Error (usage) when two outputs of a run would be one file.
void refuse_same_output(const std::string& a, const std::string& b);

// The directory and the name there that an output takes or replaces, with links followed; nothing where there is no
// such directory. Throws Error (cannot_create).
std::optional<std::pair<FileIdentity, std::string>> entry_of_output(const std::string& path);

// The files that a run is about, which it must not take for what a killed one has left: the input, and what is there
// under the names of all its outputs. Empty names stand for none.
std::vector<FileIdentity> files_of_run(const CaseReader& input, const std::vector<std::string>& outputs);

class OutputFile {
public:
    // Creates the temporary file, so that a missing or unwritable directory shows before any work is done, and removes
    // what killed runs have left, but none of the files `kept`. A device or a FIFO is written directly, and so is
    // standard output, "-", whatever it leads to, from where it stands. `form`: what is put around what is written.
    OutputFile(const std::string& name, InterruptGuard& interrupts, const std::vector<FileIdentity>& kept = {},
               const OutputForm& form = {});

    // Where what is to become the output is until then, for others who write parts of it.
    struct Temporary {
        std::string path;
        uint64_t inode = 0; // by which they know that they see the same file
    };
    // Part of an output that another process or thread has made and will publish. Throws Error (cannot_create) where it
    // is not to be seen from here.
    OutputFile(const std::string& name, const Temporary& of_another, const OutputForm& form);
    // Of one with random access.
    Temporary temporary() const;

    // Output that another writes, one of several files or one that this process does not see: it is told what to
    // write, by any number of threads at once.
    using Tell = std::function<void(uint64_t offset, const void* data, size_t size)>;
    OutputFile(const std::string& name, Tell tell);

    // Temporary files of earlier runs for the same output that were killed; they have been removed.
    std::vector<std::string> leftovers() const;

    void write(const void* data, size_t size);

    // Whether write_at() works: a device, a FIFO, standard output or gzip takes bytes only one after the other.
    bool random_access() const { return (temporary_.has_value() || others_ || tell_) && !gzip_; }
    // By any number of threads at once. The offset is that of what is written, without the form's head.
    void write_at(uint64_t offset, const void* data, size_t size);
    // Room for the whole output, so that a full disk shows early. Where the file system cannot promise any, or for a
    // device, nothing.
    void reserve(uint64_t size);

    // Complete: everything is written and closed; with `sync` it is safe on the disk. Still under the temporary name.
    void finish(bool sync);

    // Gives the finished file its name. With `sync` the name too is safe on the disk.
    void publish(bool sync);

    // Both.
    void commit(bool sync) {
        finish(sync);
        publish(sync);
    }

    // Whether an open descriptor (standard output, say) leads to the same device or pipe, or might: it cannot be told.
    bool writes_to(int other) const;

private:
    void open(const std::string& name, InterruptGuard& interrupts, const std::vector<FileIdentity>& kept);
    void write_plain(const void* data, size_t size);
    template <class WriteSome>
    void write_all(const void* data, size_t size, const WriteSome& write_some);
    [[noreturn]] void fail_to_write() const;
    void reserve_in(int file, int mode, uint64_t size) const;
    void open_to_replace(const struct stat& existing, InterruptGuard& interrupts,
                         const std::vector<FileIdentity>& kept);
    void open_direct();
    void open_standard_output();
    void write_through(bool sync);
    void flush(int file) const;
    void sync_directory() const;

    int fd() const { return temporary_ ? temporary_->fd() : direct_.get(); }

    std::string path_;                       // as messages name it
    std::string target_;                     // the file behind it (symbolic links followed)
    FileDescriptor direct_;                  // standard output, a device, a FIFO or, in the end, a mount point
    std::optional<TemporaryFile> temporary_; // or else this
    bool others_ = false;                    // direct_ is another's temporary file
    Tell tell_;                              // or another writes, and there is none of these
    uint64_t told_ = 0;                      // by write()
    std::unique_ptr<GzipSink> gzip_;         // null: written as it is
    uint64_t head_bytes_ = 0;                // the form's, before offset 0
};

// Names on stderr what killed runs had left and was removed.
void remark_leftovers(const char* program, const OutputFile& file);

} // namespace hw4
