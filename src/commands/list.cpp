#include <cstdio>

#include "src/base/json.h"
#include "src/base/version.h"
#include "src/commands/run.h"
#include "src/cpu/engine.h"
#include "src/gpu/engine.h"
#include "src/run/case_options.h"

namespace hw4 {
namespace {

// [a, b], one per line.
template <class Items, class Text>
std::string json_list(const Items& items, const std::string& indent, Text text) {
    std::string list;
    for (const auto& item : items) list += (list.empty() ? "\n" : ",\n") + indent + "  " + text(item);
    return "[" + list + "\n" + indent + "]";
}

std::string field(const char* name, const std::string& value) { return json_string(name) + ": " + value; }
std::string text_field(const char* name, const std::string& text) { return field(name, json_string(text)); }

std::string contract_json(const Contract* contract) {
    const auto flag_field = [](const char* name, bool value) { return ", " + field(name, value ? "true" : "false"); };
    const auto computed_json = [&](const Computed& computed) {
        return "{" + text_field("operation", computed.operation->name) + ", " +
               text_field("revision", contract->revision_of(*computed.operation)) + ", " +
               field("masks",
                     json_list(computed.masks, "        ", [](Mask mask) { return json_string(name_of(mask)); })) +
               flag_field("windows", computed.windows) + flag_field("lengths", computed.by_lengths) +
               flag_field("pads", computed.pads) + "}";
    };
    return "{" + text_field("name", contract->name) + ", " + text_field("idea", contract->idea) + ",\n     " +
           text_field("compared", contract->compared == Compared::bytes ? "bytes" : "bound") + ", " +
           text_field("element", name_of(contract->element)) + ", " +
           field("most_columns", contract->most_columns > 0 ? std::to_string(contract->most_columns) : "null") +
           ",\n     " + field("computes", json_list(contract->computes, "    ", computed_json)) + "}";
}

std::string kernel_json(const char* device, const KernelInfo& kernel) {
    return "{" + text_field("device", device) + ", " + text_field("name", kernel.name) + ", " +
           text_field("operation", kernel.does->name) + ", " + text_field("contract", kernel.under->name) + ", " +
           text_field("idea", kernel.idea) + ", " +
           field("why_not_here", kernel.why_not_here.empty() ? "null" : json_string(kernel.why_not_here)) + "}";
}

std::string kernel_line(const char* device, const KernelInfo& kernel) {
    char start[96];
    std::snprintf(start, sizeof start, "%s  %-21s  %-7s  ", device, kernel.name.c_str(), kernel.under->name);
    return start + kernel.idea + (kernel.why_not_here.empty() ? "" : " (" + kernel.why_not_here + ")") + "\n";
}

} // namespace

std::string list_text() {
    std::string text;
    for (const KernelInfo& kernel : gpu::kernel_list()) text += kernel_line("gpu", kernel);
    for (const KernelInfo& kernel : cpu::kernel_list()) text += kernel_line("cpu", kernel);
    return text;
}

std::string list_json() {
    std::vector<std::string> kernels;
    for (const KernelInfo& kernel : gpu::kernel_list()) kernels.push_back(kernel_json("gpu", kernel));
    for (const KernelInfo& kernel : cpu::kernel_list()) kernels.push_back(kernel_json("cpu", kernel));
    return "{\n  " + text_field("hw4_version", kVersion) + ",\n  " +
           field("contracts", json_list(contracts(), "  ", contract_json)) + ",\n  " +
           field("kernels", json_list(kernels, "  ", [](const std::string& kernel) { return kernel; })) + "\n}\n";
}

std::string version_line() {
    return "hw4 " + std::string(kVersion) + ", contracts " + contract_revisions() + ", " + gpu::build_description() +
           "\n";
}

} // namespace hw4
