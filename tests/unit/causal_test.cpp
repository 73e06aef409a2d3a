// The causal mask in the references and in every CPU kernel.
#include "tests/support/causal.h"

#include "tests/support/cpu_subjects.h"

namespace hw4 {
namespace {

INSTANTIATE_TEST_SUITE_P(Cpu, Causal, testing::ValuesIn(cpu_subjects(kF32)), name_of_instance);
INSTANTIATE_TEST_SUITE_P(CpuFixed, Causal, testing::ValuesIn(cpu_subjects(kFixed)), name_of_instance);
INSTANTIATE_TEST_SUITE_P(CpuFixed, FixedCausal, testing::ValuesIn(cpu_subjects(kFixed)), name_of_instance);
INSTANTIATE_TEST_SUITE_P(CpuFixed16, Causal, testing::ValuesIn(cpu_subjects(kFixed16)), name_of_instance);
INSTANTIATE_TEST_SUITE_P(CpuFixed16, FixedCausal, testing::ValuesIn(cpu_subjects(kFixed16)), name_of_instance);

} // namespace
} // namespace hw4
