// A problem: an operation, its sizes and its mask, and the layout of rows that follows from them. A unit is one head of
// one batch. A case of the course is B units with as many keys as queries and no mask.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "src/problem/element.h"
#include "src/problem/mask.h"
#include "src/problem/operation.h"

namespace hw4 {

struct Problem {
    int64_t batches = 0;  // B
    int64_t queries = 0;  // N_q: rows of Q and O in each head
    int64_t keys = 0;     // N_k: rows of K and V
    int64_t dim = 0;      // columns of every row in memory: d, or the larger of d and d_v
    int64_t heads = 1;    // of Q
    int64_t kv_heads = 1; // of K and V; divides the heads of Q
    Mask mask = Mask::none;
    const Operation* operation = &kForward;
    Element element = Element::float32; // of the files
    double scale = 0;                   // factor of the scores; 0: 1/sqrt(d)
    int64_t window = 0;                 // keys that a query sees at most, with the causal mask; 0: no window
    bool by_lengths = false;            // each batch has its own number of keys, the first ones of N_k rows
    bool by_pages = false;              // K and V are in pages (tensor.h); by lengths too
    // Where d and d_v differ: both. Rows in memory are padded with zeros, and the scale is that of d. 0: both are dim.
    int64_t key_columns = 0;
    int64_t value_columns = 0;
    bool unpadded = false; // tensors do not have these zeros: their rows have as many columns as in files
    // The block of keys of operations that give rows of a block of keys. All keys are inputs.
    int64_t first_key = 0;
    int64_t block_keys = 0;

    constexpr Problem() = default;
    // One head with as many keys as queries: a case of the course.
    constexpr Problem(int64_t b, int64_t tokens, int64_t d) : batches(b), queries(tokens), keys(tokens), dim(d) {}

    // The same problem with `count` batches.
    Problem of_batches(int64_t count) const {
        Problem part = *this;
        part.batches = count;
        return part;
    }

    // A batch with `count` keys, in a problem by lengths.
    Problem of_keys(int64_t count) const {
        Problem part = *this;
        part.keys = count;
        part.by_lengths = part.by_pages = false;
        return part;
    }

    Problem of_operation(const Operation& other) const {
        Problem problem = *this;
        problem.operation = &other;
        return problem;
    }

    // The same problem with rows of d columns in Q and K, and of d_v in V and O.
    Problem of_columns(int64_t d, int64_t d_v) const {
        Problem problem = *this;
        problem.dim = std::max(d, d_v);
        problem.key_columns = d == d_v ? 0 : d;
        problem.value_columns = d == d_v ? 0 : d_v;
        return problem;
    }
    bool is_padded() const { return key_columns != 0; }
    int64_t key_dim() const { return is_padded() ? key_columns : dim; }     // d
    int64_t value_dim() const { return is_padded() ? value_columns : dim; } // d_v
    int64_t columns_of(const Operand& operand) const { return operand.has_value_columns ? value_dim() : key_dim(); }

    // Code that makes a Problem first checks that the products below fit (case_header.cpp).
    int64_t units() const { return batches * heads; }
    int64_t heads_of(const Operand& operand) const { return operand.rows == Rows::of_queries ? heads : kv_heads; }
    int64_t head_rows(const Operand& operand) const {
        return operand.rows == Rows::of_queries ? queries : operand.rows == Rows::of_keys ? keys : block_keys;
    }
    // Rows in a batch.
    int64_t rows_of(const Operand& operand) const { return heads_of(operand) * head_rows(operand); }
    int64_t rows_of(const List<Operand>& list) const {
        int64_t rows = 0;
        for (const Operand& operand : list) rows += rows_of(operand);
        return rows;
    }
    // Numbers in a batch of a file.
    int64_t numbers_of(const List<Operand>& list) const {
        int64_t numbers = 0;
        for (const Operand& operand : list) numbers += rows_of(operand) * columns_of(operand);
        return numbers;
    }
    int64_t batch_input_rows() const { return rows_of(operation->inputs); }
    int64_t batch_output_rows() const { return rows_of(operation->outputs); }
    int64_t input_rows() const { return batches * batch_input_rows(); }
    int64_t output_rows() const { return batches * batch_output_rows(); }

    // Sizes as floats.
    size_t row_bytes() const { return static_cast<size_t>(dim) * sizeof(float); }
    size_t floats_in(int64_t rows) const { return static_cast<size_t>(rows) * static_cast<size_t>(dim); }
    size_t batch_input_floats() const { return floats_in(batch_input_rows()); }
    size_t batch_output_floats() const { return floats_in(batch_output_rows()); }
    size_t batch_input_bytes() const { return batch_input_floats() * sizeof(float); }
    size_t batch_output_bytes() const { return batch_output_floats() * sizeof(float); }
    size_t input_bytes() const { return static_cast<size_t>(batches) * batch_input_bytes(); }
    size_t output_bytes() const { return static_cast<size_t>(batches) * batch_output_bytes(); }

    // Sizes in the file's elements, while they are copied from and to files.
    size_t stored_row_bytes() const { return static_cast<size_t>(dim) * bytes_of(element); }
    size_t stored_input_bytes() const { return static_cast<size_t>(input_rows()) * stored_row_bytes(); }
    size_t stored_output_bytes() const { return static_cast<size_t>(output_rows()) * stored_row_bytes(); }

    // Bytes in files, of all batches, without headers.
    size_t file_bytes(const List<Operand>& list) const {
        return static_cast<size_t>(batches * numbers_of(list)) * bytes_of(element);
    }

    // Two for each multiply-add of the pairs that the mask leaves. A double, since the count can pass 2^64.
    double flops() const {
        const int of_values = operation->products / 2; // products with rows of V or dO
        const auto columns =
            static_cast<double>((operation->products - of_values) * key_dim() + of_values * value_dim());
        return 2.0 * columns * static_cast<double>(units()) * pairs();
    }
    // The pairs of a unit: of a query and a key that it sees, out of the keys that the operation computes.
    double pairs() const {
        const auto from = [this](int64_t key) { return visible_pairs(mask, queries, keys - key, window); };
        return block_keys == 0 ? from(0) : from(first_key) - from(first_key + block_keys);
    }
};

} // namespace hw4
