#include "src/bench/sweep.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "src/base/command_line.h"
#include "src/base/error.h"
#include "src/base/numbers.h"
#include "src/contracts/contract.h"

namespace hw4::bench {
namespace {

// The course's cases, which the Makefile reads from testcases/cases.tsv.
struct CourseCase {
    const char* name;
    Shape shape;
};
constexpr CourseCase kCourse[] = {
#ifdef HW4_COURSE_CASES
    HW4_COURSE_CASES
#else
    {"t01", {320, 1, 128, 32}}
#endif
};

Grid grid_of(const Shape& shape) {
    Grid grid;
    grid.batch_size = {shape.batch_size};
    grid.seq_len = {shape.seq_len};
    grid.num_heads = {shape.num_heads};
    grid.emb_dim = {shape.num_heads * shape.head_dim};
    return grid;
}

// Values in the place of a preset's.
void take_values(std::vector<Grid>& grids, std::vector<int64_t> Grid::*axis,
                 const std::optional<std::vector<int64_t>>& asked) {
    if (!asked) return;
    for (Grid& grid : grids) grid.*axis = *asked;
}

std::vector<Grid> grids_of(const Sweep& sweep) {
    std::vector<Grid> grids = {sweep.preset != nullptr ? sweep.preset->grid : Grid()};
    if (!sweep.shapes.empty()) {
        grids.clear();
        for (const Shape& shape : sweep.shapes) grids.push_back(grid_of(shape));
    }
    take_values(grids, &Grid::batch_size, sweep.batch_size);
    take_values(grids, &Grid::seq_len, sweep.seq_len);
    take_values(grids, &Grid::num_heads, sweep.num_heads);
    take_values(grids, &Grid::emb_dim, sweep.emb_dim);
    for (Grid& grid : grids) {
        if (sweep.causal) grid.causal = *sweep.causal;
        if (sweep.elements) grid.elements = *sweep.elements;
    }
    return grids;
}

// The element without --dtype.
Element usual_element(const std::string& impl) {
    const Contract* const contract = find_contract(impl);
    return contract != nullptr ? contract->element : Element::float32;
}

struct Implementation {
    std::string impl;
    std::string kernel;
};

const KernelInfo& kernel_named(const std::string& name, const std::string& device,
                               const std::vector<KernelInfo>& kernels) {
    const auto found = std::find_if(kernels.begin(), kernels.end(), [&](const auto& k) { return k.name == name; });
    if (found != kernels.end()) return *found;
    std::vector<std::string> names;
    for (const KernelInfo& kernel : kernels) names.push_back(kernel.name);
    throw Error(ExitCode::usage, "no kernel '" + name + "' on the " + device + did_you_mean(name, names) +
                                     "; --list-kernels names them");
}

// The requested kernels, by name or all of the device.
std::vector<KernelInfo> asked_kernels(const Sweep& sweep, const std::string& device,
                                      const std::vector<KernelInfo>& kernels) {
    std::vector<KernelInfo> asked;
    for (const std::string& name : sweep.kernels)
        if (name == "all")
            asked.insert(asked.end(), kernels.begin(), kernels.end());
        else
            asked.push_back(kernel_named(name, device, kernels));
    return asked;
}

std::vector<Implementation> implementations(const Sweep& sweep, const std::string& device,
                                            const std::vector<KernelInfo>& kernels) {
    const std::vector<KernelInfo> asked = asked_kernels(sweep, device, kernels);
    std::vector<std::string> impls = sweep.preset != nullptr ? sweep.preset->impls : std::vector<std::string>{"f32"};
    if (!asked.empty()) {
        impls.clear();
        for (const KernelInfo& kernel : asked)
            if (std::find(impls.begin(), impls.end(), kernel.under->name) == impls.end())
                impls.emplace_back(kernel.under->name);
    }
    if (sweep.impls) impls = *sweep.impls;
    std::vector<Implementation> list;
    for (const std::string& impl : impls) {
        const bool has_kernels = find_contract(impl) != nullptr && !asked.empty();
        if (!has_kernels) list.push_back({impl, ""});
        const size_t before = list.size();
        for (const KernelInfo& kernel : asked)
            if (impl == kernel.under->name) list.push_back({impl, kernel.name});
        if (has_kernels && list.size() == before) usage_error("no --kernel is one of '" + impl + "'");
    }
    for (const KernelInfo& kernel : asked)
        if (std::find(impls.begin(), impls.end(), kernel.under->name) == impls.end() &&
            std::find(sweep.kernels.begin(), sweep.kernels.end(), "all") == sweep.kernels.end())
            usage_error("--kernel '" + kernel.name + "' is one of '" + kernel.under->name +
                        "', which --impl leaves out");
    return list;
}

// Measures the baseline before the others, also where --impl omits it.
void put_first(std::vector<Implementation>& list, const std::string& baseline) {
    if (baseline.empty()) return;
    const auto is_it = [&](const Implementation& one) {
        return (one.kernel.empty() ? one.impl : one.kernel) == baseline;
    };
    if (std::none_of(list.begin(), list.end(), is_it)) {
        if (implementation_named(baseline).empty())
            usage_error("--relative-to '" + baseline + "': need an implementation, or a kernel that --kernel names" +
                        did_you_mean(baseline, implementation_names()));
        list.push_back({baseline, ""});
    }
    std::stable_partition(list.begin(), list.end(), is_it);
}

// The sizes of a grid, each taken by all implementations in turn.
template <class Take>
void for_each_size(const Grid& grid, Cell cell, const Take& take) {
    for (const bool causal : grid.causal)
        for (const int64_t emb_dim : grid.emb_dim)
            for (const int64_t heads : grid.num_heads)
                for (const int64_t batches : grid.batch_size)
                    for (const int64_t tokens : grid.seq_len)
                        for (const Element element : grid.elements) {
                            cell.causal = causal;
                            cell.emb_dim = emb_dim;
                            cell.num_heads = heads;
                            cell.batch_size = batches;
                            cell.seq_len = tokens;
                            cell.element = element;
                            take(cell);
                        }
}

void add_new(std::vector<Cell>& cells, const Cell& cell) {
    if (std::find(cells.begin(), cells.end(), cell) == cells.end()) cells.push_back(cell);
}

} // namespace

std::optional<Shape> shape_named(const std::string& text) {
    for (const CourseCase& one : kCourse)
        if (text == one.name) return one.shape;
    std::vector<int64_t> sizes;
    std::istringstream stream(text + ",");
    for (std::string word; std::getline(stream, word, ',');) {
        const auto size = whole_number(word, 1, kMostSize);
        if (!size) return std::nullopt;
        sizes.push_back(*size);
    }
    if (sizes.size() == 3) sizes.insert(sizes.begin() + 1, 1); // one head
    if (sizes.size() != 4 || sizes[1] * sizes[3] > kMostSize) return std::nullopt;
    return Shape{sizes[0], sizes[1], sizes[2], sizes[3]};
}

const std::vector<Preset>& presets() {
    static const std::vector<Preset> list = {
        {"lab5",
         "B 16..64, N 128..512, H 16..64, E 512..2048, causal",
         {{16, 32, 64}, {128, 256, 512}, {16, 32, 64}, {512, 1024, 2048}, {true}},
         {"naive", "f32"},
         30,
         false},
        {"cs336-attention",
         "B 8, N 256..16k, d 16..128, one head",
         {{8}, {256, 1024, 4096, 8192, 16384}, {1}, {16, 32, 64, 128}},
         {"naive", "f32"},
         100,
         false},
        {"cs336-flash",
         "B 1, N 128..64k, d 16..128, one head, causal, bf16 and float32, --cold",
         {{1},
          {128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536},
          {1},
          {16, 32, 64, 128},
          {true},
          {Element::bf16, Element::float32}},
         {"naive", "f32"},
         30,
         true},
    };
    return list;
}

std::vector<std::string> implementation_names() {
    std::vector<std::string> names = {"naive", "hw4"};
    for (const Contract* contract : contracts()) names.emplace_back(contract->name);
    return names;
}

std::string implementation_named(std::string name) {
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    const std::vector<std::string> names = implementation_names();
    if (std::find(names.begin(), names.end(), name) == names.end()) return "";
    return name == "hw4" ? contracts()[0]->name : name;
}

std::vector<Cell> cells_of(const Sweep& sweep, const std::string& device, const std::vector<KernelInfo>& kernels) {
    std::vector<Cell> cells;
    std::vector<Implementation> timed = implementations(sweep, device, kernels);
    put_first(timed, sweep.baseline);
    const std::vector<Grid> grids = grids_of(sweep);
    Cell cell = sweep.common;
    cell.device = device;
    if (sweep.preset != nullptr) {
        cell.rules.repeats = sweep.preset->repeats;
        cell.rules.cold = sweep.preset->cold;
    }
    cell.rules.repeats = sweep.repeats.value_or(cell.rules.repeats);
    cell.rules.cold = sweep.cold.value_or(cell.rules.cold);
    for (const Grid& grid : grids) {
        const bool one_type = !sweep.elements && grid.elements.size() == 1; // no --dtype
        for_each_size(grid, cell, [&](Cell sized) {
            for (const Implementation& one : timed)
                for (const int warmup : sweep.warmups) {
                    sized.impl = one.impl;
                    sized.kernel = one.kernel;
                    if (one_type) sized.element = usual_element(one.impl);
                    sized.rules.warmup = warmup;
                    add_new(cells, sized);
                }
        });
    }
    if (std::none_of(cells.begin(), cells.end(), [](const Cell& c) { return c.heads_divide(); }))
        usage_error("--emb_dim " + std::to_string(cells.front().emb_dim) + " is no multiple of --num_heads " +
                    std::to_string(cells.front().num_heads));
    return cells;
}

} // namespace hw4::bench
