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

// Of O. Throws Error (usage): the outputs of an operation that has several are no array, and narrow numbers none that
// is written.
OutputForm form_of_output(const std::string& name, const Problem& problem);

// Of a number for every row of O.
OutputForm form_of_rows(const std::string& name, const Problem& problem);

} // namespace hw4
