// Sweeps that others have published, so that their tables can be made again, and the course's cases.
#include "src/bench/sweep.h"

namespace hw4::bench {
namespace {

// Every combination of the course's exercise with FlashAttention-2.
Grid lab5() {
    Grid grid;
    grid.batch_size = {16, 32, 64};
    grid.seq_len = {128, 256, 512};
    grid.num_heads = {16, 32, 64};
    grid.emb_dim = {512, 1024, 2048};
    grid.causal = {true};
    return grid;
}

// CS336's table of attention without heads.
Grid cs336_attention() {
    Grid grid;
    grid.batch_size = {8};
    grid.seq_len = {256, 1024, 4096, 8192, 16384};
    grid.num_heads = {1};
    grid.emb_dim = {16, 32, 64, 128};
    return grid;
}

// And of its kernel.
Grid cs336_flash() {
    Grid grid;
    grid.batch_size = {1};
    grid.seq_len = {128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536};
    grid.num_heads = {1};
    grid.emb_dim = {16, 32, 64, 128};
    grid.causal = {true};
    grid.elements = {Element::bf16, Element::float32};
    return grid;
}

// FlashAttention's own benchmark: 16384 tokens, 2048 columns, heads of 64 and 128.
std::vector<Grid> fa2() {
    std::vector<Grid> grids;
    for (int64_t tokens = 512; tokens <= 16384; tokens *= 2) {
        Grid grid;
        grid.batch_size = {16384 / tokens};
        grid.seq_len = {tokens};
        grid.num_heads = {32, 16};
        grid.emb_dim = {2048};
        grid.causal = {false, true};
        grids.push_back(grid);
    }
    return grids;
}

// t01 to t30 of testcases/cases.tsv.
std::vector<Grid> course() {
    struct Shape {
        int64_t batches, tokens, dim;
    };
    constexpr Shape kShapes[] = {{320, 128, 32},   {160, 128, 64},  {160, 256, 32},  {80, 256, 64},   {80, 512, 32},
                                 {40, 512, 64},    {40, 1024, 32},  {20, 1024, 64},  {20, 2048, 32},  {10, 2048, 64},
                                 {13600, 128, 32}, {9600, 128, 64}, {6400, 256, 32}, {2000, 256, 64}, {2000, 512, 32},
                                 {800, 512, 64},   {800, 1024, 32}, {300, 1024, 64}, {300, 2048, 32}, {100, 2048, 64},
                                 {500, 2048, 32},  {500, 2048, 64}, {100, 4096, 32}, {100, 4096, 64}, {30, 8192, 32},
                                 {10, 8192, 64},   {10, 16384, 32}, {4, 16384, 64},  {4, 32768, 32},  {2, 32768, 64}};
    std::vector<Grid> grids;
    for (const Shape& shape : kShapes) {
        Grid grid;
        grid.batch_size = {shape.batches};
        grid.seq_len = {shape.tokens};
        grid.num_heads = {1};
        grid.emb_dim = {shape.dim};
        grids.push_back(grid);
    }
    return grids;
}

} // namespace

const std::vector<Preset>& presets() {
    static const std::vector<Preset> list = {
        {"lab5", "B 16..64, N 128..512, H 16..64, E 512..2048, causal", {lab5()}, {"naive", "f32"}, 30, false},
        {"cs336-attention", "B 8, N 256..16k, d 16..128, one head", {cs336_attention()}, {"naive", "f32"}, 100, false},
        {"cs336-flash",
         "B 1, N 128..64k, d 16..128, one head, causal, bf16 and float32, --cold",
         {cs336_flash()},
         {"naive", "f32"},
         30,
         true},
        {"fa2", "16k tokens, N 512..16k, 2048 columns, d 64 and 128, causal and not", fa2(), {"f32"}, 30, false},
        {"course", "t01 to t30 of testcases/cases.tsv", course(), {"f32", "fixed"}, 20, false},
    };
    return list;
}

} // namespace hw4::bench
