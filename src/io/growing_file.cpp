#include "src/io/growing_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "src/base/error.h"
#include "src/base/file_descriptor.h"

namespace hw4 {
namespace {

// False: errno says why not, or not all of it.
bool write_at(int file, uint64_t offset, const std::string& bytes) {
    for (size_t done = 0; done < bytes.size();) {
        const ssize_t wrote =
            ::pwrite(file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote == 0) errno = ENOSPC; // or it would be tried for ever
        if (wrote <= 0) return false;
        done += static_cast<size_t>(wrote);
    }
    return true;
}

} // namespace

GrowingFile::GrowingFile(std::string name, const char* program, InterruptGuard& interrupts)
    : name_(std::move(name)), interrupts_(interrupts) {
    if (name_.empty()) return;
    auto opened = std::make_unique<OutputFile>(name_, interrupts_);
    remark_leftovers(program, *opened);
    if (!opened->random_access()) direct_ = std::move(opened);
}

bool GrowingFile::on_standard_output() const { return direct_ && direct_->writes_to(STDOUT_FILENO); }

void GrowingFile::begin(std::string start, std::string end) {
    text_ = std::move(start);
    end_ = std::move(end);
    if (!name_.empty() && !direct_) replace();
}

void GrowingFile::add(const std::string& more) {
    if (name_.empty() || more.empty()) return;
    const bool appended = !direct_ && append(more);
    text_ += more;
    if (!direct_ && !appended) replace();
}

void GrowingFile::finish() {
    if (!direct_) return;
    const std::unique_ptr<OutputFile> file = std::move(direct_);
    file->write(text_.data(), text_.size());
    file->write(end_.data(), end_.size());
    file->commit(false);
}

void GrowingFile::replace() {
    OutputFile file(name_, interrupts_);
    file.write(text_.data(), text_.size());
    file.write(end_.data(), end_.size());
    file.commit(false);
    struct stat status {};
    if (::stat(name_.c_str(), &status) == 0) identity_ = identity_of(status); // else the next part replaces it again
}

// False: it is not the file that was put there, or may not be written to.
bool GrowingFile::append(const std::string& more) {
    FileDescriptor file(::open(name_.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    if (!file.valid() || ::fstat(file.get(), &status) != 0) return false;
    const uint64_t size = text_.size() + end_.size();
    if (!(identity_of(status) == identity_) || static_cast<uint64_t>(status.st_size) != size || status.st_nlink != 1)
        return false;
    interrupts_.undisturbed([&] {
        if (write_at(file.get(), text_.size(), more + end_)) return;
        const std::string message = name_ + ": " + with_errno("cannot write");
        const bool restored =
            write_at(file.get(), text_.size(), end_) && ::ftruncate(file.get(), static_cast<off_t>(size)) == 0;
        throw Error(ExitCode::io_error, message + (restored ? "" : ", and what was there is incomplete"));
    });
    if (file.close_checked() != 0) throw Error(ExitCode::io_error, name_ + ": " + with_errno("cannot close"));
    return true;
}

} // namespace hw4
