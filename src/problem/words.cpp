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
           problem.scale == 0;
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
    return {
        std::string("(B, heads, key-value heads, N_q, N_k, d") + (masked ? ", mask" : "") + (window ? ", window" : "") +
            (forward ? "" : ", operation") + (narrow ? ", element" : "") + (scaled ? ", scale)" : ")"),
        "(" + text(problem.batches) + ", " + text(problem.heads) + ", " + text(problem.kv_heads) + ", " +
            text(problem.queries) + ", " + text(problem.keys) + ", " + text(problem.dim) +
            (masked ? ", " + std::string(name_of(problem.mask)) : "") + (window ? ", " + text(problem.window) : "") +
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

std::string place_of(const Problem& problem, const List<Operand>& operands, int64_t row) {
    const int64_t batch = row / problem.rows_of(operands);
    int64_t in_operand = row % problem.rows_of(operands);
    const Operand* operand = operands.begin();
    for (; in_operand >= problem.rows_of(*operand); ++operand) in_operand -= problem.rows_of(*operand);
    const std::string name = operands.size() > 1 ? ", " + std::string(operand->name) : "";
    return "batch " + std::to_string(batch) + name + ", " + row_of(problem, *operand, in_operand);
}

} // namespace hw4
