#include "src/bench/sweep.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "src/base/error.h"
#include "src/base/refused_option.h"
#include "src/contracts/contract.h"

namespace hw4::bench {
namespace {

constexpr std::array<const char*, 4> kTorch = {"pytorch", "flash2", "cudnn", "efficient"};

[[noreturn]] void usage_error(const std::string& what) { throw Error(ExitCode::usage, what + "; see bench --help"); }

using Axis = std::vector<int64_t> Grid::*;

// Values in the place of a preset's. Where its sizes come together, as batches with tokens in fa2, those that it has
// pick the grids that have them.
void take_values(std::vector<Grid>& grids, Axis axis, const std::optional<std::vector<int64_t>>& asked) {
    if (!asked) return;
    const auto differs = [&](const Grid& grid) { return grid.*axis != grids.front().*axis; };
    if (std::any_of(grids.begin(), grids.end(), differs)) {
        std::vector<Grid> picked;
        for (Grid grid : grids) {
            std::vector<int64_t> found;
            for (const int64_t value : *asked)
                if (std::count((grid.*axis).begin(), (grid.*axis).end(), value) > 0) found.push_back(value);
            grid.*axis = found;
            if (!found.empty()) picked.push_back(grid);
        }
        if (!picked.empty()) {
            grids = picked;
            return;
        }
    }
    for (Grid& grid : grids) grid.*axis = *asked;
}

// A value that the others leave no row for would be left out without a word.
void require_rows(const std::vector<Grid>& grids, Axis axis, const std::optional<std::vector<int64_t>>& asked,
                  const std::string& option, const Sweep& sweep) {
    if (!asked) return;
    for (const int64_t value : *asked) {
        const auto has = [&](const Grid& grid) {
            return std::count((grid.*axis).begin(), (grid.*axis).end(), value) > 0;
        };
        if (std::none_of(grids.begin(), grids.end(), has))
            usage_error(option + " " + std::to_string(value) + ": no row of --preset " + sweep.preset->name +
                        " has it beside what else is asked for");
    }
}

std::vector<Grid> overridden(std::vector<Grid> grids, const Sweep& sweep) {
    take_values(grids, &Grid::batch_size, sweep.batch_size);
    take_values(grids, &Grid::seq_len, sweep.seq_len);
    take_values(grids, &Grid::num_heads, sweep.num_heads);
    take_values(grids, &Grid::emb_dim, sweep.emb_dim);
    require_rows(grids, &Grid::batch_size, sweep.batch_size, "--batch_size", sweep);
    require_rows(grids, &Grid::seq_len, sweep.seq_len, "--seq_len", sweep);
    require_rows(grids, &Grid::num_heads, sweep.num_heads, "--num_heads", sweep);
    require_rows(grids, &Grid::emb_dim, sweep.emb_dim, "--emb_dim", sweep);
    for (Grid& grid : grids) {
        if (sweep.causal) grid.causal = *sweep.causal;
        if (sweep.elements) grid.elements = *sweep.elements;
    }
    return grids;
}

// Where nobody says: lab5.py's for PyTorch's forms, but for the one that is there for float32.
Element usual_element(const std::string& impl) {
    if (const Contract* contract = find_contract(impl)) return contract->element;
    return is_torch(impl) && impl != "efficient" ? Element::fp16 : Element::float32;
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

// The kernels asked for, by name or all of the device.
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

// The sizes of a grid, which all implementations take one after the other.
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

std::vector<std::string> implementation_names() {
    std::vector<std::string> names = {"naive", "hw4"};
    for (const Contract* contract : contracts()) names.emplace_back(contract->name);
    names.insert(names.end(), kTorch.begin(), kTorch.end());
    return names;
}

bool is_torch(const std::string& impl) { return std::find(kTorch.begin(), kTorch.end(), impl) != kTorch.end(); }

std::string implementation_named(std::string name) {
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    const std::vector<std::string> names = implementation_names();
    if (std::find(names.begin(), names.end(), name) == names.end()) return "";
    return name == "hw4" ? contracts()[0]->name : name;
}

std::vector<Cell> cells_of(const Sweep& sweep, const std::string& device, const std::vector<KernelInfo>& kernels) {
    std::vector<Cell> cells;
    const std::vector<Implementation> who = implementations(sweep, device, kernels);
    static const std::vector<Grid> usual(1);
    const std::vector<Grid> grids = overridden(sweep.preset != nullptr ? sweep.preset->grids : usual, sweep);
    Cell cell = sweep.common;
    cell.device = device;
    if (sweep.preset != nullptr) {
        cell.rules.repeats = sweep.preset->repeats;
        cell.rules.cold = sweep.preset->cold;
    }
    cell.rules.repeats = sweep.repeats.value_or(cell.rules.repeats);
    cell.rules.cold = sweep.cold.value_or(cell.rules.cold);
    for (const Grid& grid : grids) {
        const bool one_type = !sweep.elements && grid.elements.size() == 1; // nobody has chosen
        for_each_size(grid, cell, [&](Cell sized) {
            for (const Implementation& one : who)
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
