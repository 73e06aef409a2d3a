// How matrices are copied to the GPU and back, which also determines their rows' layout there.
#pragma once

namespace hw4 {

enum class Copies {
    two_d,  // each row aligned for the card, all rows in one copy of a rectangle
    linear, // rows packed as in the file, one flat copy
};

inline const char* name_of(Copies copies) { return copies == Copies::two_d ? "2d" : "linear"; }

} // namespace hw4
