// A subject computes attention; the same tests run for every subject.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "src/contracts/contract.h"

namespace hw4 {

struct Subject {
    std::string name;
    const Contract* contract;
    std::function<std::string(const Problem&)> why_not; // why it cannot compute this problem here; empty if it can
    std::function<std::vector<float>(const Problem&, const std::vector<float>& qkv)> attend;

    friend std::ostream& operator<<(std::ostream& out, const Subject& subject) { return out << subject.name; }
};

inline std::vector<const Contract*> contracts_by_bytes() {
    std::vector<const Contract*> list;
    for (const Contract* contract : contracts())
        if (contract->compared == Compared::bytes) list.push_back(contract);
    return list;
}

inline std::string name_of_instance(const testing::TestParamInfo<Subject>& instance) { return instance.param.name; }

} // namespace hw4
