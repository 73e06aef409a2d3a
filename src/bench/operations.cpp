#include "src/bench/operations.h"

#include <cstdio>

#include "src/base/json.h"
#include "src/bench/sampling.h"
#include "src/bench/tables.h"

namespace hw4::bench {
namespace {

// FLOP, or bytes, a second
double rate_of(const MeasuredOperation& of) {
    const auto terms = static_cast<double>(of.product.terms());
    return (of.is_product() ? 2 * terms * static_cast<double>(of.product.rows() * of.product.columns()) : of.bytes) /
           median(of.seconds);
}

// "qkv linear"
std::string name_of(const MeasuredOperation& of, const step::Model& model) {
    const int64_t outputs = of.product.outputs;
    const char* const product = outputs == model.vocabulary         ? "head "
                                : outputs == 3 * model.width        ? "qkv "
                                : outputs == 2 * model.hidden       ? "gate_up "
                                : of.product.inputs == model.hidden ? "down "
                                                                    : "output ";
    return (of.is_product() ? product : "") + of.name;
}

} // namespace

std::string operations_table(const std::vector<MeasuredOperation>& all, const step::Model& model) {
    std::string text =
        "#            operation     rows x columns x terms  calls          us   beside us  ratio     rate\n";
    double ours = 0;
    double by_cublas = 0;
    for (const bool is_product : {true, false}) {
        for (const MeasuredOperation& of : all) {
            if (of.is_product() != is_product) continue;
            const std::string sizes = std::to_string(of.product.rows()) + " x " + std::to_string(of.product.columns()) +
                                      " x " + std::to_string(of.product.terms());
            const double seconds = median(of.seconds);
            const double beside = median(of.beside);
            char line[160];
            std::snprintf(line, sizeof line, "%22s  %24s  %5lld  %10.1f  %10.1f  %5.3f  %7.0f %s\n",
                          name_of(of, model).c_str(),
                          (is_product ? sizes : with_digits("%.3f MB", of.bytes * 1e-6)).c_str(),
                          static_cast<long long>(of.calls), seconds * 1e6, beside * 1e6, beside / seconds,
                          rate_of(of) * 1e-9, is_product ? "GFLOP/s" : "GB/s");
            text += line;
            ours += static_cast<double>(of.calls) * seconds;
            by_cublas += static_cast<double>(of.calls) * beside;
        }
        if (is_product)
            text += "# products one after another: " + with_digits("%.3f ms, by cuBLAS ", ours * 1e3) +
                    with_digits("%.3f ms, ratio ", by_cublas * 1e3) + with_digits("%.3f\n", by_cublas / ours);
    }
    return text + "\n";
}

std::string operations_json(const std::vector<MeasuredOperation>& all, const step::Model& model) {
    std::string list;
    for (const MeasuredOperation& of : all) {
        JsonFields fields;
        fields.add("operation", json_string(name_of(of, model)));
        fields.add("rows", of.product.rows());
        fields.add("columns", of.product.columns());
        fields.add("terms", of.product.terms());
        fields.add("bytes", json_number(of.bytes));
        fields.add("calls", of.calls);
        fields.add("seconds", json_number(median(of.seconds)));
        fields.add("beside_seconds", json_number(median(of.beside)));
        fields.add("ratio", json_number(median(of.beside) / median(of.seconds)));
        fields.add("giga_per_s", json_number(rate_of(of) * 1e-9));
        list += (list.empty() ? "" : ",\n") + fields.text();
    }
    return "[\n" + list + "\n]";
}

} // namespace hw4::bench
