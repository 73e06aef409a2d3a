// The operations, as rows of one table: the matrices that an operation takes and gives, in the order of the files, and
// its number of matrix products. The layout of files, the slots of the engines, the check of the numbers and the count
// of FLOP follow from these rows alone.
#pragma once

#include <algorithm>
#include <cstddef>

namespace hw4 {

// A view of an array of constants. The rows of the program's tables consist of such lists.
template <class T>
struct List {
    const T* first = nullptr;
    size_t count = 0;

    constexpr List() = default;
    template <size_t kCount>
    constexpr List(const T (&items)[kCount]) : first(items), count(kCount) {} // NOLINT(google-explicit-constructor)

    constexpr const T* begin() const { return first; }
    constexpr const T* end() const { return first + count; }
    constexpr size_t size() const { return count; }
    constexpr const T& operator[](size_t index) const { return first[index]; }
    constexpr bool has(const T& wanted) const {
        for (const T& item : *this)
            if (item == wanted) return true;
        return false;
    }
};

// Which of a problem's lengths is a matrix's number of rows.
enum class Rows { of_queries, of_keys, of_key_block };

// Decides which limit applies to a matrix's numbers (domain.h); they must be finite in any case.
enum class Role { query, key, value, gradient, other };

struct Operand {
    const char* name;
    Rows rows;
    Role role;
    bool has_value_columns = false; // as many columns as V
};

struct Operation {
    const char* name;
    int file_code; // in the header of a case file
    List<Operand> inputs;
    List<Operand> outputs;
    int products; // each of N_q x N_k x d multiply-adds, except where a mask hides keys
    // The operation that this one computes some outputs of, from the same inputs; null: none.
    const Operation* part_of = nullptr;
};

constexpr size_t kMostInputs = 4; // of any operation
constexpr size_t kMostOutputs = 3;

namespace operands {
inline constexpr Operand kForwardIn[] = {
    {"Q", Rows::of_queries, Role::query}, {"K", Rows::of_keys, Role::key}, {"V", Rows::of_keys, Role::value, true}};
inline constexpr Operand kForwardOut[] = {{"O", Rows::of_queries, Role::other, true}};
inline constexpr Operand kBackwardIn[] = {{"Q", Rows::of_queries, Role::query},
                                          {"K", Rows::of_keys, Role::key},
                                          {"V", Rows::of_keys, Role::value, true},
                                          {"dO", Rows::of_queries, Role::gradient, true}};
inline constexpr Operand kBackwardOut[] = {{"dQ", Rows::of_queries, Role::other},
                                           {"dK", Rows::of_keys, Role::other},
                                           {"dV", Rows::of_keys, Role::other, true}};
inline constexpr Operand kQueryGradientsOut[] = {{"dQ", Rows::of_queries, Role::other}};
inline constexpr Operand kKeyGradientsOut[] = {{"dK", Rows::of_key_block, Role::other},
                                               {"dV", Rows::of_key_block, Role::other, true}};
} // namespace operands

// O = softmax(Q K^T / sqrt(d)) V.
inline constexpr Operation kForward = {
    .name = "forward", .file_code = 0, .inputs = operands::kForwardIn, .outputs = operands::kForwardOut, .products = 2};
// The gradients of sum(O * dO).
inline constexpr Operation kBackward = {.name = "backward",
                                        .file_code = 1,
                                        .inputs = operands::kBackwardIn,
                                        .outputs = operands::kBackwardOut,
                                        .products = 5};

inline constexpr const Operation* kOperations[] = {&kForward, &kBackward};

// Backward split among several that share a head of keys: one with rows of queries computes dQ, one with a block of
// keys dK and dV. The scores and dP, which both need, are counted once, with dQ.
inline constexpr Operation kQueryGradients = {.name = "backward",
                                              .file_code = 1,
                                              .inputs = operands::kBackwardIn,
                                              .outputs = operands::kQueryGradientsOut,
                                              .products = 3,
                                              .part_of = &kBackward};
inline constexpr Operation kKeyGradients = {.name = "backward",
                                            .file_code = 1,
                                            .inputs = operands::kBackwardIn,
                                            .outputs = operands::kKeyGradientsOut,
                                            .products = 2,
                                            .part_of = &kBackward};

// The operation that was asked for, of which `operation` may be a part.
inline const Operation& whole_of(const Operation& operation) {
    return operation.part_of == nullptr ? operation : *operation.part_of;
}

// Such an operation must take the heads of queries that share keys together.
inline bool gives_rows_of_keys(const Operation& operation) {
    const auto has_them = [](const Operand& output) { return output.rows != Rows::of_queries; };
    return std::any_of(operation.outputs.begin(), operation.outputs.end(), has_them);
}

} // namespace hw4
