// Text and numbers for JSON files.
#pragma once

#include <string>

namespace hw4 {

// A JSON string, in ASCII alone. Names of files are bytes; those that are no UTF-8 become lone surrogates, U+DC80 to
// U+DCFF, so that json.loads() of Python gives a name as its os.fsdecode() does, and os.fsencode() the bytes.
std::string json_string(const std::string& text);

std::string json_number(double x);

} // namespace hw4
