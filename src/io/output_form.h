// How an output's numbers are put into a file, which its name says: NAME.gz is gzip, NAME.npy NumPy's format, with the
// shape; any other has the numbers alone.
#pragma once

#include <string>

#include "src/io/npy.h"

namespace hw4 {

struct OutputForm {
    bool gzip = false;
    Bytes head; // before the numbers
};

// For O, or for dQ, dK, dV of each batch; for `only` one of the outputs where it is not null. `heads_axis`: the array
// has an axis of heads even where there is one head. Throws Error (usage) for outputs that are not one array of NumPy.
OutputForm form_of_output(const std::string& name, const Problem& problem, bool heads_axis = false,
                          const Operand* only = nullptr);

// For a float32 for every row of O.
OutputForm form_of_rows(const std::string& name, const Problem& problem, bool heads_axis = false);

} // namespace hw4
