#include "src/io/output_form.h"

#include <string_view>

#include "src/base/error.h"

namespace hw4 {
namespace {

constexpr std::string_view kGzip = ".gz";
constexpr std::string_view kNpy = ".npy";

bool ends_with(const std::string& name, std::string_view suffix) {
    return name.size() > suffix.size() && name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
}

std::string without_gzip(const std::string& name) {
    return ends_with(name, kGzip) ? name.substr(0, name.size() - kGzip.size()) : name;
}

OutputForm form_of(const std::string& name, const Shape& shape) {
    return {ends_with(name, kGzip), ends_with(without_gzip(name), kNpy) ? npy_header_of(shape) : Bytes()};
}

// (B, N_q), with the heads between them where there are several.
Shape shape_of_rows(const Problem& problem) {
    if (problem.heads == 1) return {problem.batches, problem.queries};
    return {problem.batches, problem.heads, problem.queries};
}

} // namespace

OutputForm form_of_output(const std::string& name, const Problem& problem) {
    if (problem.operation != &kForward && ends_with(without_gzip(name), kNpy))
        throw Error(ExitCode::usage, name + ": dQ, dK and dV are not one array, need a name without .npy");
    if (problem.element != Element::float32 && ends_with(without_gzip(name), kNpy))
        throw Error(ExitCode::usage, name + ": O has elements of " + name_of(problem.element) +
                                         ", .npy is written of float32 only, need a name without .npy");
    Shape shape = shape_of_rows(problem);
    shape.push_back(problem.dim);
    return form_of(name, shape);
}

OutputForm form_of_rows(const std::string& name, const Problem& problem) {
    return form_of(name, shape_of_rows(problem));
}

} // namespace hw4
