#include "src/io/case_output.h"

#include "src/base/error.h"
#include "src/base/standard_streams.h"
#include "src/io/split_batches.h"

namespace hw4 {

CaseOutput::CaseOutput(RunFiles& files, const std::vector<std::string>& names, const CaseReader& input,
                       InterruptGuard& interrupts) {
    const Problem& problem = input.problem();
    const bool several = names.size() > 1;
    for (size_t i = 0; i < names.size(); ++i) {
        files.add_output(names[i]);
        const OutputForm form = form_of_output(names[i], problem, input.header().heads_axis,
                                               several ? &problem.operation->outputs[i] : nullptr);
        files_.push_back(std::make_unique<OutputFile>(names[i], interrupts, form));
        if (several && !files_.back()->random_access())
            throw Error(ExitCode::usage, shown_output(names[i]) +
                                             ": one of several outputs is written in no order, need a plain file: no "
                                             "pipe, no gzip");
    }
    if (!several) return;
    const SplitBatches split(problem, problem.operation->outputs);
    for (size_t i = 0; i < files_.size(); ++i) {
        const int64_t rows = problem.batches * problem.rows_of(problem.operation->outputs[i]);
        files_[i]->reserve(static_cast<uint64_t>(rows) * problem.stored_row_bytes());
    }
    stream_ =
        std::make_unique<OutputFile>(names.front(), [this, split](uint64_t offset, const void* data, size_t size) {
            split.each_stretch(offset, size, [&](size_t file, uint64_t at, size_t done, size_t count) {
                files_[file]->write_at(at, static_cast<const char*>(data) + done, count);
                return true;
            });
        });
}

void CaseOutput::finish(bool sync) {
    for (const auto& file : files_) file->finish(sync);
}

void CaseOutput::publish(bool sync) {
    for (const auto& file : files_) file->publish(sync);
}

} // namespace hw4
