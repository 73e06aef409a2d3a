#include "src/bench/accumulate.h"

#include <cstdio>

#include "src/base/json.h"

namespace hw4::bench {
namespace {

// The float32 sum of two narrow numbers has more than twice their digits: rounding it once more gives their narrow sum.
float sum_of(const Accumulation& way, const Addends& addends) {
    const float term = rounded_to(way.sum, rounded_to(way.term, addends.term));
    float whole = 0;
    float chain = 0;
    int in_chain = 0;
    for (int64_t i = 0; i < addends.count; ++i) {
        chain = rounded_to(way.sum, chain + term);
        if (++in_chain < way.chain) continue;
        whole = way.chain == 0 ? chain : rounded_to(way.sum, whole + chain);
        if (way.chain > 0) chain = 0;
        in_chain = 0;
    }
    return in_chain > 0 ? rounded_to(way.sum, whole + chain) : whole;
}

double exact_sum(const Accumulation& way, const Addends& addends) {
    return static_cast<double>(addends.count) * double{rounded_to(way.term, addends.term)};
}

} // namespace

std::vector<float> cpu_sums(const Addends& addends) {
    std::vector<float> sums;
    for (const Accumulation& way : kAccumulations) sums.push_back(sum_of(way, addends));
    return sums;
}

std::string accumulation_table(const Addends& addends, const std::vector<float>& sums) {
    char line[128];
    std::snprintf(line, sizeof line, "%lld times %.9g\nterm     sum      chain          sum        exact      error\n",
                  static_cast<long long>(addends.count), double{addends.term});
    std::string text = line;
    for (size_t i = 0; i < sums.size(); ++i) {
        const Accumulation& way = kAccumulations[i];
        const double exact = exact_sum(way, addends);
        const std::string chain = way.chain == 0 ? "-" : std::to_string(way.chain);
        std::snprintf(line, sizeof line, "%-7s  %-7s  %5s  %11.9g  %11.9g  %+9.2e\n", name_of(way.term),
                      name_of(way.sum), chain.c_str(), double{sums[i]}, exact, double{sums[i]} - exact);
        text += line;
    }
    return text;
}

std::string accumulation_json(const Addends& addends, const std::vector<float>& sums, const std::string& device) {
    std::string list;
    for (size_t i = 0; i < sums.size(); ++i) {
        const Accumulation& way = kAccumulations[i];
        JsonFields fields;
        fields.add("term", json_string(name_of(way.term)));
        fields.add("sum", json_string(name_of(way.sum)));
        fields.add("chain", way.chain == 0 ? "null" : std::to_string(way.chain));
        fields.add("result", json_number(double{sums[i]}));
        fields.add("exact", json_number(exact_sum(way, addends)));
        list += (list.empty() ? "" : ", ") + fields.text();
    }
    JsonFields fields;
    fields.add("device", json_string(device));
    fields.add("count", addends.count);
    fields.add("term", json_number(double{addends.term}));
    fields.add_nested("sums", "[" + list + "]");
    return fields.text() + "\n";
}

} // namespace hw4::bench
