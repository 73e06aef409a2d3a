#include "tests/support/expected.h"

namespace hw4 {

void compute_expected(const Contract& contract, const Problem& problem, const float* in, float* out,
                      RowStatistics* statistics) {
    compute_by_reference(contract, problem, in, out, statistics);
}

} // namespace hw4
