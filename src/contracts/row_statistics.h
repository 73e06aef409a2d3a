// What forward knows of a query row when it is done with it, exactly: its weights were 2^(c * (s - origin) - M), where
// s is a score and c the scale, and they added up to l, in the contract's unit. From these three numbers follow the
// row's logsumexp (logsumexp.h) and the weights themselves, once more. Under `fixed` and `fixed16` scores have their
// scale already, origin is 0 and M is the contract's R.
#pragma once

namespace hw4 {

struct RowStatistics {
    float M;
    float origin;
    float l; // 0: the row sees no key; M and origin are 0 then
};

} // namespace hw4
