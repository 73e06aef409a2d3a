// Cases that are computed in shares: every operation and mask, with heads, ragged lengths, fewer and more batches than
// shares. Also reads the values in a report on such a run.
#pragma once

#include <regex>
#include <string>
#include <vector>

#include "tests/support/file_to_file.h"
#include "tests/support/problems.h"

namespace hw4 {

inline std::vector<Problem> shared_problems() {
    std::vector<Problem> list;
    for (const Operation* operation : kOperations)
        for (const Mask mask : kEveryMask)
            for (const Sizes& sizes : {Sizes{1, 1, 1, 700, 700, 5}, Sizes{7, 1, 1, 33, 33, 4},
                                       Sizes{2, 6, 2, 150, 290, 3}, Sizes{1, 2, 1, 300, 40, 8}})
                list.push_back(problem_of(sizes, mask, *operation));
    return list;
}

// The values of every field of this name in a JSON text, in order, without quotes.
inline std::vector<std::string> json_values(const std::string& text, const std::string& name) {
    std::vector<std::string> values;
    const std::regex field("\"" + name + "\": \"?([^\",}\\n]*)");
    for (std::sregex_iterator found(text.begin(), text.end(), field), end; found != end; ++found)
        values.push_back((*found)[1]);
    return values;
}

} // namespace hw4
