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

bool is_npy_name(const std::string& name) { return ends_with(without_gzip(name), kNpy); }

OutputForm form_of(const std::string& name, const Shape& shape, Element element = Element::float32) {
    return {ends_with(name, kGzip), is_npy_name(name) ? npy_header_of(shape, element) : Bytes()};
}

Shape operator+(Shape front, const Shape& back) {
    front.insert(front.end(), back.begin(), back.end());
    return front;
}

// (heads, N), without the heads where there is one, unless they are asked for.
Shape shape_of_head(const Problem& problem, const Operand& operand, bool heads_axis) {
    const int64_t heads = problem.heads_of(operand);
    return (heads_axis || heads > 1 ? Shape{heads} : Shape{}) + Shape{problem.head_rows(operand)};
}

} // namespace

OutputForm form_of_output(const std::string& name, const Problem& problem, bool heads_axis, const Operand* only) {
    const List<Operand>& outputs = problem.operation->outputs;
    const Operand& first = only == nullptr ? outputs[0] : *only;
    const auto refuse = [&](const std::string& why) {
        throw Error(ExitCode::usage, name + ": " + why + ", need a name without .npy");
    };
    if (is_npy_name(name) && problem.element == Element::bf16)
        refuse(std::string(first.name) + " has elements of bf16, which NumPy lacks");
    Shape shape = {problem.batches};
    if (only == nullptr && outputs.size() > 1) shape.push_back(static_cast<int64_t>(outputs.size()));
    const Shape head = shape_of_head(problem, first, heads_axis);
    for (const Operand& output : outputs)
        if (is_npy_name(name) && only == nullptr && shape_of_head(problem, output, heads_axis) != head)
            refuse(std::string(first.name) + " and " + output.name + " differ in shape and are not one array");
    return form_of(name, shape + head + Shape{problem.dim}, problem.element);
}

OutputForm form_of_rows(const std::string& name, const Problem& problem, bool heads_axis) {
    return form_of(name, Shape{problem.batches} + shape_of_head(problem, kForward.outputs[0], heads_axis));
}

} // namespace hw4
