#include "src/problem/words.h"

#include <cstdio>

namespace hw4 {

namespace {

std::string text_of(double number) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", number);
    return text;
}

} // namespace

bool is_plain(const Problem& problem) {
    return problem.operation == &kForward && problem.mask == Mask::none && problem.heads == 1 &&
           problem.kv_heads == 1 && problem.queries == problem.keys && problem.element == Element::float32 &&
           problem.scale == 0 && !problem.is_padded() && !problem.by_lengths;
}

std::pair<std::string, std::string> sizes_of(const Problem& problem) {
    const auto text = [](int64_t number) { return std::to_string(number); };
    if (is_plain(problem))
        return {"(B, N, d)",
                "(" + text(problem.batches) + ", " + text(problem.queries) + ", " + text(problem.dim) + ")"};
    const bool masked = problem.mask != Mask::none;
    const bool forward = problem.operation == &kForward;
    const bool narrow = problem.element != Element::float32;
    const bool window = problem.window > 0;
    const bool scaled = problem.scale != 0;
    const bool padded = problem.is_padded();
    return {std::string("(B, heads, key-value heads, N_q, N_k, d") + (padded ? ", d_v" : "") +
                (masked ? ", mask" : "") + (window ? ", window" : "") + (forward ? "" : ", operation") +
                (narrow ? ", element" : "") + (scaled ? ", scale)" : ")"),
            "(" + text(problem.batches) + ", " + text(problem.heads) + ", " + text(problem.kv_heads) + ", " +
                text(problem.queries) + ", " + text(problem.keys) + ", " + text(problem.key_dim()) +
                (padded ? ", " + text(problem.value_dim()) : "") +
                (masked ? ", " + std::string(name_of(problem.mask)) : "") +
                (window ? ", " + text(problem.window) : "") +
                (forward ? "" : ", " + std::string(problem.operation->name)) +
                (narrow ? ", " + std::string(name_of(problem.element)) : "") +
                (scaled ? ", " + text_of(problem.scale) : "") + ")"};
}

std::string what_it_lacks(const Operation& does, const List<Mask>& masks, const Problem& problem) {
    if (problem.operation != &does)
        return "computes " + std::string(does.name) + ", this case asks for " + problem.operation->name;
    return masks.has(problem.mask) ? "" : "lacks the mask " + std::string(name_of(problem.mask));
}

std::string row_of(const Problem& problem, const Operand& operand, int64_t row) {
    const int64_t head_rows = problem.head_rows(operand);
    const std::string in_head = "row " + std::to_string(row % head_rows);
    return problem.heads_of(operand) == 1 ? in_head : "head " + std::to_string(row / head_rows) + ", " + in_head;
}

NumberPlace number_place(const Problem& problem, const List<Operand>& operands, int64_t index) {
    const int64_t batch_numbers = problem.numbers_of(operands);
    int64_t left = index % batch_numbers;
    size_t operand = 0;
    for (;; ++operand) {
        const int64_t numbers = problem.rows_of(operands[operand]) * problem.columns_of(operands[operand]);
        if (left < numbers) break;
        left -= numbers;
    }
    const int64_t columns = problem.columns_of(operands[operand]);
    return {index / batch_numbers, operand, left / columns, left % columns};
}

std::string place_of(const Problem& problem, const List<Operand>& operands, int64_t index) {
    const NumberPlace place = number_place(problem, operands, index);
    const Operand& operand = operands[place.operand];
    const std::string name = operands.size() > 1 ? ", " + std::string(operand.name) : "";
    return "batch " + std::to_string(place.batch) + name + ", " + row_of(problem, operand, place.row);
}

} // namespace hw4
