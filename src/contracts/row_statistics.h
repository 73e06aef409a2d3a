// What forward knows of a query row when the row is done, exactly: its weights were 2^(c * (s - origin) - M), where s
// is a score and c the scale, and they added up to l, in the contract's unit. The logsumexp (logsumexp.h) and the
// weights follow from these numbers. Under `fixed` and `fixed16` scores include their scale, origin is 0 and M is R.
#pragma once

namespace hw4 {

struct RowStatistics {
    float M;
    float origin;
    float l; // 0: the row sees no key; M and origin are 0 then
};

} // namespace hw4
