// seq: the sequential reference. O = softmax(Q K^T / sqrt(d)) V, one thread, plain loops, in the order that
// src/contract.h states, or with --arith fixed src/fixed.h. Every other engine of this project must print the bytes
// that this program prints.
//
//     seq [--time] [--arith f32|fixed] INPUT OUTPUT
//
// --time prints the seconds of the arithmetic alone, without reading, checking and writing: "arithmetic_seconds 1.25".
#include <getopt.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "src/contracts/contract.h"
#include "src/io/case_file.h"
#include "src/problem/domain.h"
#include "src/base/error.h"
#include "src/contracts/fma_clones.h"
#include "src/base/interrupt.h"
#include "src/io/output_file.h"
#include "src/base/refused_option.h"
#include "src/contracts/reference.h"
#include "src/base/standard_output.h"
#include "src/base/standard_streams.h"

namespace hw4 {
namespace {

constexpr int kQueryBlock = 32; // rows that share a pass over the keys; changes speed, never bytes

// What one query row carries from key tile to key tile.
struct Row {
    Reference reference = empty_reference();       // of the running sums
    Reference total_reference = empty_reference(); // of the totals
    float lanes[kSumLanes] = {};                   // running sums of weights
    std::vector<float> o;                          // [d] running sums of weight * value
    std::vector<float> total;                      // [d] of the segments before
    explicit Row(int64_t d) : o(static_cast<size_t>(d)), total(static_cast<size_t>(d)) {}
};

// K [N][d] as tiles of 32 keys, each transposed: [tile][t][key], missing keys zero. Only so that the score
// loop runs over neighbours in memory.
std::vector<float> transpose_in_tiles(const float* k, int64_t n, int64_t d) {
    std::vector<float> kt(static_cast<size_t>((n + kKeyTile - 1) / kKeyTile * kKeyTile * d));
    for (int64_t j = 0; j < n; ++j)
        for (int64_t t = 0; t < d; ++t)
            kt[static_cast<size_t>((j / kKeyTile * d + t) * kKeyTile + j % kKeyTile)] = k[j * d + t];
    return kt;
}

// One row against one tile of `keys` <= 32 keys.
HW4_FMA_CLONES void attend_tile(Row& row, const float* q, const float* kt, const float* v, int keys, int64_t d,
                                Scale scale) {
    float s[kKeyTile] = {};
    for (int64_t first = 0; first < d; first += kScoreColumns) {
        float block[kKeyTile] = {};
        for (int64_t t = first; t < std::min(first + kScoreColumns, d); ++t)
            for (int j = 0; j < kKeyTile; ++j) block[j] = fused(q[t], kt[t * kKeyTile + j], block[j]);
        for (int j = 0; j < kKeyTile; ++j) s[j] += block[j];
    }

    const float tile_max = *std::max_element(s, s + keys);
    if (!row.reference.covers(tile_max)) {
        const Reference raised = reference_at(tile_max, scale);
        const float alpha = rescale_factor(row.reference, raised, scale);
        for (float& lane : row.lanes) lane *= alpha;
        for (float& o : row.o) o *= alpha;
        row.reference = raised;
    }

    float p[kKeyTile];
    for (int j = 0; j < kKeyTile; ++j) p[j] = row.reference.weight(s[j], scale);
    std::fill(p + keys, p + kKeyTile, 0.0f);
    for (ptrdiff_t g = 0; g < kSumLanes; ++g) row.lanes[g] += lane_share(p + g * kLaneKeys);
    float* o = row.o.data();
    for (int j = 0; j < keys; ++j)
        for (int64_t x = 0; x < d; ++x) o[x] = fused(p[j], v[j * d + x], o[x]);
}

// End of a segment: the running output into the totals.
void fold_segment(Row& row, Scale scale) {
    const float alpha = rescale_factor(row.total_reference, row.reference, scale);
    for (size_t x = 0; x < row.o.size(); ++x) row.total[x] = fused(row.total[x], alpha, row.o[x]);
    row.total_reference = row.reference;
    std::fill(row.o.begin(), row.o.end(), 0.0f);
}

} // namespace

void sequential_attention(const float* q, const float* k, const float* v, float* out, int64_t n, int64_t d) {
    const Scale scale = scale_for(d);
    const std::vector<float> kt = transpose_in_tiles(k, n, d);
    for (int64_t first_row = 0; first_row < n; first_row += kQueryBlock) {
        std::vector<Row> rows(static_cast<size_t>(std::min<int64_t>(kQueryBlock, n - first_row)), Row(d));
        for (int64_t j = 0; j < n; j += kKeyTile) {
            const int keys = static_cast<int>(std::min<int64_t>(kKeyTile, n - j));
            const bool segment_ends = (j + kKeyTile) % kSegmentKeys == 0 || j + kKeyTile >= n;
            for (size_t i = 0; i < rows.size(); ++i) {
                attend_tile(rows[i], q + (first_row + static_cast<int64_t>(i)) * d, kt.data() + j * d, v + j * d, keys,
                            d, scale);
                if (segment_ends) fold_segment(rows[i], scale);
            }
        }
        for (const Row& row : rows) {
            const float inv = 1.0f / close_lanes(row.lanes);
            for (const float x : row.total) *out++ = result(x, inv);
        }
    }
}

} // namespace hw4

#if !defined(SEQ_AS_LIBRARY) // the tests link sequential_attention() without the program around it

namespace {

constexpr const char* kUsage = "usage: seq [--time] [--arith f32|fixed] INPUT OUTPUT";

struct Request {
    hw4::Arithmetic arithmetic = hw4::Arithmetic::f32;
    bool print_time = false;
    std::string input;
    std::string output;
};

[[noreturn]] void usage_error(const std::string& what) { throw hw4::Error(hw4::ExitCode::usage, what + "; " + kUsage); }

// Throws Error (usage).
Request parse(int argc, char** argv) {
    static constexpr option kOptions[] = {{"time", no_argument, nullptr, hw4::kLong + 't'},
                                          {"arith", required_argument, nullptr, hw4::kLong + 'a'},
                                          {nullptr, 0, nullptr, 0}};
    Request request;
    opterr = 0; // one line of our own instead of getopt's
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no other threads yet
    for (int code = 0; (code = getopt_long(argc, argv, ":", kOptions, nullptr)) != -1;) {
        switch (code) {
        case hw4::kLong + 't': request.print_time = true; break;
        case hw4::kLong + 'a':
            if (!hw4::parse_arithmetic(optarg, request.arithmetic))
                usage_error("--arith '" + std::string(optarg) + "': need f32 or fixed");
            break;
        case ':': usage_error("option '" + hw4::refused_option(argv) + "' needs a value");
        default: usage_error("option '" + hw4::refused_option(argv) + "' is not known, or takes no value");
        }
    }
    const int names = argc - optind;
    if (names != 2)
        usage_error("need INPUT and OUTPUT, got " + std::to_string(names) + (names == 1 ? " name" : " names"));
    request.input = argv[optind];
    request.output = argv[optind + 1];
    return request;
}

void run(const Request& request) {
    using Clock = std::chrono::steady_clock;
    hw4::InterruptGuard interrupts;
    hw4::CaseReader reader(request.input);
    hw4::refuse_many_columns(request.input, reader.shape(), request.arithmetic);
    hw4::refuse_overwriting(reader, request.output);
    hw4::OutputFile writer(request.output, interrupts, hw4::files_of_run(reader, {request.output}));
    hw4::remark_leftovers("seq", writer);
    const hw4::Shape& shape = reader.shape();
    std::printf("(B, N, d): (%lld, %lld, %lld)\n", static_cast<long long>(shape.batches),
                static_cast<long long>(shape.tokens), static_cast<long long>(shape.dim));
    // Not vectors, which fill their memory at once: so it becomes memory only as data comes.
    const std::unique_ptr<float[]> qkv(new float[shape.batch_input_floats()]);
    const std::unique_ptr<float[]> out(new float[shape.matrix_floats()]);
    hw4::DomainCheck domain(request.input, shape);
    Clock::duration arithmetic{};
    for (int64_t b = 0; b < shape.batches; ++b) {
        const int64_t first_row = b * shape.batch_input_rows();
        reader.read_rows(first_row, shape.batch_input_rows(), qkv.get());
        domain.check(first_row, shape.batch_input_rows(), qkv.get());
        const float* q = qkv.get();
        const float* k = q + shape.matrix_floats();
        const float* v = k + shape.matrix_floats();
        const Clock::time_point start = Clock::now();
        hw4::sequential_attention(request.arithmetic, q, k, v, out.get(), shape.tokens, shape.dim);
        arithmetic += Clock::now() - start;
        writer.write(out.get(), shape.batch_output_bytes());
    }
    reader.expect_end();
    writer.commit(false);
    if (request.print_time) std::printf("arithmetic_seconds %.9g\n", std::chrono::duration<double>(arithmetic).count());
}

} // namespace

int main(int argc, char** argv) {
    hw4::occupy_closed_streams();
    try {
        run(parse(argc, argv));
        hw4::flush_standard_output();
    } catch (const hw4::Error& error) {
        std::fprintf(stderr, "seq: %s\n", error.what());
        return static_cast<int>(error.code());
    } catch (const std::bad_alloc&) {
        std::fprintf(stderr, "seq: out of memory\n");
        return static_cast<int>(hw4::ExitCode::out_of_memory);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "seq: %s\n", error.what());
        return static_cast<int>(hw4::ExitCode::internal);
    }
}

#endif
