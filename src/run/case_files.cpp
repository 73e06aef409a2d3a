#include "src/run/case_files.h"

#include "src/base/error.h"
#include "src/base/standard_streams.h"
#include "src/problem/words.h"

namespace hw4 {
namespace {

CaseReader opened(const CaseNames& names, const CaseOptions& options) {
    CaseReader input =
        options.arrays.given() ? CaseReader(options.arrays.inputs()) : CaseReader(names.input, options.operation);
    if (options.causal) input.set_mask(Mask::causal);
    if (options.window > 0) input.set_window(options.window);
    if (options.scale > 0) input.set_scale(options.scale);
    return input;
}

} // namespace

void CaseFiles::add_names(RunFiles& files, const CaseNames& names, const CaseOptions& options) {
    for (const std::string& path : options.inputs_of(names)) files.add_input(path);
    for (const std::string& path : options.outputs_of(names)) files.add_output(path);
    if (!options.lse.empty()) files.add_output(options.lse);
}

CaseFiles::CaseFiles(const CaseNames& names, const CaseOptions& options, const Contract& contract)
    : names_(names), options_(options), input_(opened(names, options)) {
    const auto refuse = [&](ExitCode code, const std::string& why) {
        if (!why.empty()) throw Error(code, input_.path() + ": " + why);
    };
    refuse(ExitCode::bad_data, why_not(contract, problem()));
    if (!options.lse.empty()) refuse(ExitCode::usage, why_no_statistics(contract, problem()));
}

OutputForm CaseFiles::output_form() const {
    return form_of_output(names_.output, problem(), input_.header().heads_axis);
}

OutputForm CaseFiles::lse_form() const { return form_of_rows(options_.lse, problem(), input_.header().heads_axis); }

void CaseFiles::open_outputs(InterruptGuard& interrupts) {
    if (options_.arrays.gradients().empty())
        outputs_.push_back(std::make_unique<OutputFile>(names_.output, interrupts, output_form()));
    else
        open_each_gradient(interrupts);
    if (!options_.lse.empty()) lse_ = std::make_unique<OutputFile>(options_.lse, interrupts, lse_form());
}

void CaseFiles::open_each_gradient(InterruptGuard& interrupts) {
    const List<Operand>& operands = problem().operation->outputs;
    const std::vector<std::string> names = options_.arrays.gradients();
    for (size_t i = 0; i < names.size(); ++i) {
        const OutputForm form = form_of_output(names[i], problem(), input_.header().heads_axis, &operands[i]);
        outputs_.push_back(std::make_unique<OutputFile>(names[i], interrupts, form));
        if (!outputs_.back()->random_access())
            throw Error(ExitCode::usage, shown_output(names[i]) +
                                             ": one of several outputs is written in no order, need a plain file: no "
                                             "pipe, no gzip");
    }
    for (size_t i = 0; i < names.size(); ++i) {
        const int64_t rows = problem().batches * problem().rows_of(operands[i]);
        const auto numbers = static_cast<uint64_t>(rows * problem().columns_of(operands[i]));
        outputs_[i]->reserve(numbers * bytes_of(problem().element));
    }
    const SplitBatches split(problem(), operands);
    stream_ =
        std::make_unique<OutputFile>(names.front(), [this, split](uint64_t offset, const void* data, size_t size) {
            split.each_stretch(offset, size, [&](size_t file, uint64_t at, size_t done, size_t count) {
                outputs_[file]->write_at(at, static_cast<const char*>(data) + done, count);
                return true;
            });
        });
}

void CaseFiles::join_outputs(std::unique_ptr<OutputFile> output, std::unique_ptr<OutputFile> lse) {
    outputs_.push_back(std::move(output));
    lse_ = std::move(lse);
}

std::string CaseFiles::sizes_line() const {
    const auto [names, sizes] = sizes_of(problem());
    return names + ": " + sizes;
}

void CaseFiles::finish(bool sync) {
    for (const auto& file : outputs_) file->finish(sync);
    if (lse_) lse_->finish(sync);
}

void CaseFiles::publish(bool sync) {
    if (lse_) lse_->publish(sync);
    for (const auto& file : outputs_) file->publish(sync);
}

} // namespace hw4
