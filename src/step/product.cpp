#include "src/step/product.h"

#include <cstring>

#include "src/step/orders.h"

namespace hw4::step {
namespace {

constexpr int64_t kBlockRows = 128;     // per task, with a panel of columns: half a MiB for 1024 terms
constexpr int64_t kTasksOfThread = 4;   // at least, if there are enough rows: then threads end together
constexpr int64_t kPackedTogether = 16; // terms: a cache line of a factor whose terms are neighbours

// A factor's element (index, term). One of the steps is 1.
struct Factor {
    const float* at;
    int64_t index_step;
    int64_t term_step;
};

struct ProductShape {
    int64_t terms;     // of a sequence; they follow one another
    int64_t sequences; // added in TOKEN-SUM's tree
    int64_t leaf;      // terms of a leaf, whose sums are added in order
};

// A panel as [term][width], with zeros where there are fewer than `width`.
void pack_panel(Factor from, int64_t count, int64_t width, int64_t terms, float* to) {
    if (count < width) std::fill_n(to, terms * width, 0.0f);
    if (from.index_step == 1) {
        for (int64_t k = 0; k < terms; ++k) std::copy_n(from.at + k * from.term_step, count, to + k * width);
        return;
    }
    for (int64_t first = 0; first < terms; first += kPackedTogether) {
        const int64_t end = std::min(first + kPackedTogether, terms);
        for (int64_t i = 0; i < count; ++i)
            for (int64_t k = first; k < end; ++k) to[k * width + i] = from.at[i * from.index_step + k];
    }
}

// Panels of rows by a panel of columns.
struct Block {
    const float* a; // [panel][terms of all sequences][tile rows]
    const float* b; // [terms of all sequences][tile columns]
    int64_t panels;
};

class BlockSum {
public:
    BlockSum(const Kernels& kernels, const ProductShape& shape, const Block& block, float* memory)
        : kernels_(kernels), shape_(shape), block_(block), tile_(kernels.tile_rows * kernels.tile_columns),
          floats_(block.panels * tile_), nodes_(memory) {}

    // Blocks of memory: the waiting nodes of the tree, the current leaf, and one for K-SUM.
    static int64_t blocks_needed(const ProductShape& shape) {
        int64_t blocks = 2;
        for (int64_t node = 1; node < shape.sequences; node *= 2) ++blocks;
        return blocks;
    }

    // The sum is [panel][tile] at the beginning of the memory.
    const float* compute() {
        int64_t nodes = 0;
        const auto join = [&] {
            --nodes;
            add_floats(node(nodes - 1), node(nodes), floats_);
        };
        for (int64_t s = 0; s < shape_.sequences; ++s) {
            sum_sequence(s, node(nodes++));
            for (int joins = joins_after(s); joins > 0; --joins) join();
        }
        while (nodes > 1) join();
        return nodes_;
    }

private:
    float* node(int64_t index) const { return nodes_ + index * floats_; }

    void sum_sequence(int64_t sequence, float* sum) const {
        for (int64_t leaf = 0; leaf < shape_.terms; leaf += shape_.leaf) {
            float* const to = leaf == 0 ? sum : sum + floats_;
            std::fill_n(to, floats_, 0.0f);
            const int64_t end = std::min(leaf + shape_.leaf, shape_.terms);
            for (int64_t first = leaf; first < end; first += kLeaf) // kLeaf terms stay in the cache
                add_chains(sequence * shape_.terms + first, std::min(kLeaf, end - first), to);
            if (leaf > 0) add_floats(sum, to, floats_);
        }
    }

    void add_chains(int64_t first, int64_t terms, float* totals) const {
        const int64_t all_terms = shape_.sequences * shape_.terms;
        for (int64_t panel = 0; panel < block_.panels; ++panel)
            kernels_.tile(block_.a + (panel * all_terms + first) * kernels_.tile_rows,
                          block_.b + first * kernels_.tile_columns, terms, totals + panel * tile_);
    }

    const Kernels& kernels_;
    const ProductShape& shape_;
    const Block block_;
    const int64_t tile_;
    const int64_t floats_; // of a block
    float* const nodes_;
};

} // namespace

void Products::multiply(Team& team, const LinearProduct& of) {
    const int64_t tile_rows = kernels_.tile_rows;
    const int64_t tile_columns = kernels_.tile_columns;
    const int64_t rows = of.rows();
    const int64_t all_columns = of.columns();
    const int64_t terms = of.terms();
    const Factor a = of.a_along() ? Factor{of.a, terms, 1} : Factor{of.a, 1, rows};
    const Factor b = of.b_along() ? Factor{of.b, terms, 1} : Factor{of.b, 1, all_columns};
    const ProductShape shape = of.kind == ProductKind::linear_weights
                                   ? ProductShape{of.context, terms / of.context, of.context}
                                   : ProductShape{terms, 1, kLeaf};
    const int64_t row_panels = parts(rows, tile_rows);
    const int64_t column_panels = parts(all_columns, tile_columns);

    float* const packed_a = packed_a_.of(row_panels * terms * tile_rows);
    float* const packed_b = packed_b_.of(column_panels * terms * tile_columns);
    team.each(row_panels + column_panels, [&](int64_t i, int) {
        const auto pack = [&](Factor from, int64_t panel, int64_t width, int64_t all, float* to) {
            from.at += panel * width * from.index_step;
            pack_panel(from, std::min(width, all - panel * width), width, terms, to + panel * width * terms);
        };
        if (i < row_panels)
            pack(a, i, tile_rows, rows, packed_a);
        else
            pack(b, i - row_panels, tile_columns, all_columns, packed_b);
    });

    int64_t block_panels = std::max<int64_t>(kBlockRows / tile_rows, 1);
    while (block_panels > 1 && parts(row_panels, block_panels) * column_panels < kTasksOfThread * team.threads())
        block_panels /= 2;
    const int64_t memory = BlockSum::blocks_needed(shape) * block_panels * tile_rows * tile_columns;
    float* const blocks = blocks_.of(memory * team.threads());
    // Row of blocks after row of blocks, so that the row's factor stays in the cache.
    team.each(parts(row_panels, block_panels) * column_panels, [&](int64_t task, int thread) {
        const int64_t first_panel = task / column_panels * block_panels;
        const int64_t first_column = task % column_panels * tile_columns;
        const Block block{packed_a + first_panel * tile_rows * terms, packed_b + first_column * terms,
                          std::min(block_panels, row_panels - first_panel)};
        const float* sum = BlockSum(kernels_, shape, block, blocks + thread * memory).compute();
        const int64_t first_row = first_panel * tile_rows;
        const int64_t end_row = std::min(first_row + block.panels * tile_rows, rows);
        const int64_t columns = std::min(tile_columns, all_columns - first_column);
        for (int64_t row = first_row; row < end_row; ++row, sum += tile_columns) {
            const int64_t at = row * all_columns + first_column;
            for (int64_t c = 0; c < columns; ++c)
                of.out[at + c] = of.residual == nullptr ? sum[c] : of.residual[at + c] + sum[c];
        }
    });
}

} // namespace hw4::step
