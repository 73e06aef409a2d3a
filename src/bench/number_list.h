// The numbers of a sweep as one word: "512,1k..16k*2" is 512 and 1024, 2048, ... 16384.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hw4::bench {

// "4096", "4k", "2m", "1g": k is 1024, m 1024 of those, g 1024 of those. Nothing where it is no such number from
// `least` to `most`.
std::optional<int64_t> sized_number(const std::string& text, int64_t least, int64_t most);

// Numbers and ranges with commas between them. A range is A..B*F, each F times the one before, or A..B+D, each D more,
// up to B; A..B is A..B*2. Nothing where it is no such list, or one of more than kMostNumbers.
constexpr size_t kMostNumbers = 1000;
std::optional<std::vector<int64_t>> number_list(const std::string& text, int64_t least, int64_t most);

// The words between commas; empty ones too.
std::vector<std::string> split_at_commas(const std::string& text);

} // namespace hw4::bench
