// A long sum of one small number, by the types of the number and of the sum and by chains: CS336's study of
// accumulation, with the chains of this program's contracts added.
#pragma once

#include <string>
#include <vector>

#include "src/bench/cell.h"

namespace hw4::bench {

struct Accumulation {
    Element term;
    Element sum;
    int chain; // this many terms form a partial sum, which is added to the total; 0: each term to the total
};

// Sums of the same type, of a narrow number in float32, and in chains.
inline constexpr Accumulation kAccumulations[] = {
    {Element::float32, Element::float32, 0},  {Element::fp16, Element::fp16, 0},
    {Element::bf16, Element::bf16, 0},        {Element::fp16, Element::float32, 0},
    {Element::bf16, Element::float32, 0},     {Element::float32, Element::float32, 32},
    {Element::float32, Element::float32, 64}, {Element::fp16, Element::fp16, 32},
    {Element::fp16, Element::fp16, 64},       {Element::bf16, Element::bf16, 32},
    {Element::bf16, Element::bf16, 64},
};

struct Addends {
    int64_t count = 1000;
    float term = 0.01f;
};

// The results are in the order of kAccumulations. The CPU emulates 16-bit types exactly.
std::vector<float> cpu_sums(const Addends& addends);
// Uses the GPU's own additions. Throws Error.
std::vector<float> gpu_sums(const Addends& addends);

// A line for each sum, with count times the number as its type stores it.
std::string accumulation_table(const Addends& addends, const std::vector<float>& sums);
std::string accumulation_json(const Addends& addends, const std::vector<float>& sums, const std::string& device);

} // namespace hw4::bench
