// Converts a command line's requests to the cells to measure, in measuring order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/bench/cell.h"
#include "src/run/engine.h"

namespace hw4::bench {

// Every combination of these.
struct Grid {
    std::vector<int64_t> batch_size = {32};
    std::vector<int64_t> seq_len = {1024};
    std::vector<int64_t> num_heads = {32};
    std::vector<int64_t> emb_dim = {2048};
    std::vector<bool> causal = {false};
    std::vector<Element> elements = {Element::float32};
};

// Sizes that belong together.
struct Shape {
    int64_t batch_size, num_heads, seq_len, head_dim;
};

// "4,16384,64" is B,N,d with one head, "4,16,8192,64" B,H,N,d, "t28" the course's case. Nothing for other texts.
std::optional<Shape> shape_named(const std::string& text);

// A sweep of a course.
struct Preset {
    const char* name;
    const char* idea;
    Grid grid;
    std::vector<std::string> impls;
    int repeats;
    bool cold;
};
const std::vector<Preset>& presets();

// The request. Fields that were not given come from the preset, or are lab5.py's defaults.
struct Sweep {
    const Preset* preset = nullptr;
    std::vector<Shape> shapes; // replace all sizes below
    std::optional<std::vector<int64_t>> batch_size, seq_len, num_heads, emb_dim;
    std::optional<std::vector<bool>> causal;
    std::optional<std::vector<Element>> elements;
    std::optional<std::vector<std::string>> impls;
    std::vector<std::string> kernels; // "all": every kernel of the device; empty: each implementation's choice
    std::string baseline;             // a Cell::subject(), measured before the others; empty: none
    std::vector<int> warmups = {Rules::kByTime};
    std::optional<int> repeats;
    std::optional<bool> cold;
    Cell common; // everything else
};

// All implementations: naive and every contract. "hw4" is f32, in any letter case.
std::vector<std::string> implementation_names();
// The name as in that list; empty for an unknown name.
std::string implementation_named(std::string name);

// Each cell once. `kernels` are the device's. Throws Error (usage) for a kernel that is unknown or of none of the
// implementations; a baseline that is neither kernel nor implementation; heads that divide no cell's emb_dim.
std::vector<Cell> cells_of(const Sweep& sweep, const std::string& device, const std::vector<KernelInfo>& kernels);

} // namespace hw4::bench
