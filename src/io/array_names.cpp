#include "src/io/array_names.h"

#include <algorithm>
#include <iterator>

#include "src/base/error.h"

namespace hw4 {

bool ArrayNames::take(int code, const char* value) {
    constexpr const char* kOptions[] = {"q", "k", "v", "do", "dq", "dk", "dv"};
    if (code < kQ || code > kDv) return false;
    if (*value == '\0') throw Error(ExitCode::usage, "--" + std::string(kOptions[code - kQ]) + " '': need a name");
    (code < kDq ? in[static_cast<size_t>(code - kQ)] : out[static_cast<size_t>(code - kDq)]) = value;
    return true;
}

std::vector<std::string> ArrayNames::named(const std::vector<std::string>& names) {
    std::vector<std::string> found;
    std::copy_if(names.begin(), names.end(), std::back_inserter(found), [](const auto& name) { return !name.empty(); });
    return found;
}

std::string ArrayNames::input() const {
    std::string list;
    for (const std::string& name : inputs()) list += (list.empty() ? "" : ", ") + name;
    return list;
}

std::string ArrayNames::why_not(size_t words, const Operation* asked) const {
    if (in[0].empty() || in[1].empty() || in[2].empty()) return "need all of --q, --k and --v";
    const bool backward = !in[3].empty();
    const size_t gradient_files = gradients().size();
    if (gradient_files != 0 && gradient_files != out.size()) return "need all of --dq, --dk and --dv, or none";
    if (!backward && (asked == &kBackward || gradient_files > 0))
        return std::string(asked == &kBackward ? "--backward" : "--dq, --dk and --dv") + " of arrays: need --do";
    const size_t wanted = gradient_files > 0 ? 0 : 1;
    if (words == wanted) return "";
    return std::string(wanted == 0 ? "--dq, --dk and --dv are the output: need no other name"
                                   : "--q, --k and --v are the input: need OUTPUT alone") +
           ", got " + std::to_string(words) + (words == 1 ? " name" : " names");
}

} // namespace hw4
