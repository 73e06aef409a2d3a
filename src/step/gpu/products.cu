#include "src/step/gpu/products.h"

#include <algorithm>
#include <limits>

#include "src/base/error.h"
#include "src/step/orders.h"

namespace hw4::step {
namespace {

// The unit of time is one chain of one column of a tile, about 45 clocks of a multiprocessor; memory delivers about
// 1700 bytes in a clock. Both are estimates for an H200, where the tiles' rates were measured. They choose a tile and
// change no byte.
constexpr double kBytesInTime = 75e3;
constexpr int64_t kMostApartBytes = int64_t{1} << 29;

struct TileRate {
    int columns;
    double rate; // relative to the fastest tile
};
constexpr TileRate kTiles[] = {{192, 0.98}, {128, 1}, {96, 0.925}};

// Equals TileShape::kBytes.
size_t shared_bytes(int columns) {
    constexpr size_t kStages = 3;
    const auto step = static_cast<size_t>(columns) + 4;
    return 4 * (kStages * kChain * (kTileRows + 4 + step) + step);
}

bool are_aligned(const void* a, const void* b) {
    return (reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b)) % 16 == 0;
}

// Whether rows of factors whose terms are not contiguous begin at multiples of 16 bytes.
bool can_copy_four(ProductKind kind, const ProductArgs& args) {
    if (kind == ProductKind::linear) return true;
    if (args.b_step % 4 != 0 || !are_aligned(args.b, nullptr)) return false;
    return kind == ProductKind::linear_back || (args.a_step % 4 == 0 && are_aligned(args.a, nullptr));
}

int slots_needed(const ProductArgs& args) {
    if (!args.tree) return args.leaves > 1 ? 1 : 0;
    int slots = 0;
    for (int node = 1; node < args.leaves; node *= 2) ++slots;
    return slots;
}

// The estimated time with `whole` whole tiles. In a turn each multiprocessor computes one unit.
double time_of(const TileRate& tile, int64_t whole, const ProductArgs& args, int64_t tiles, int64_t multiprocessors) {
    const auto turns = [&](int64_t units, int64_t terms) {
        return static_cast<double>(parts(units, multiprocessors) * parts(terms, kChain)) * tile.columns / tile.rate;
    };
    if (whole == tiles) return turns(tiles, args.terms);
    const int64_t apart = tiles - whole;
    const double bytes = sizeof(float) * kTileRows * static_cast<double>(tile.columns * apart);
    return turns(whole, args.terms) + turns(apart * args.leaves, std::min(args.leaf, args.terms)) +
           bytes * (2 * args.leaves + 1) / kBytesInTime;
}

} // namespace

ProductPlan plan_product(ProductKind kind, ProductArgs& args, const gpu::Device& device) {
    ProductPlan plan;
    plan.copies_four = can_copy_four(kind, args);
    args.by_four = args.columns % 4 == 0 && are_aligned(args.out, args.residual);
    args.tiles_down = static_cast<int>(parts(args.rows, kTileRows));
    double least = std::numeric_limits<double>::infinity();
    for (const TileRate& tile : kTiles) {
        const bool smallest = tile.columns == 96;
        if (!smallest && (!plan.copies_four || shared_bytes(tile.columns) > device.shared_bytes)) continue;
        const int64_t tiles = args.tiles_down * parts(args.columns, tile.columns);
        const int64_t floats = int64_t{kTileRows} * tile.columns; // per tile
        if (tiles * args.leaves > std::numeric_limits<int>::max())
            throw Error(ExitCode::bad_data, "a product of a training step has " + std::to_string(tiles * args.leaves) +
                                                " tiles, more than a launch can count");
        // If the last turn leaves multiprocessors idle, its tiles may be split into leaves.
        for (const int64_t whole : {tiles, tiles - tiles % device.multiprocessors}) {
            const int64_t apart = (tiles - whole) * args.leaves;
            if (apart > 0 && (args.leaves == 1 || apart * floats * 4 > kMostApartBytes)) continue;
            const double time = time_of(tile, whole, args, tiles, device.multiprocessors);
            if (time >= least) continue;
            least = time;
            args.tiles = static_cast<int>(tiles);
            args.whole = static_cast<int>(whole);
            args.units = static_cast<int>(whole + apart);
            args.waiting_slots = whole > 0 ? slots_needed(args) : 0;
            plan.tile_columns = tile.columns;
            plan.blocks = std::min(args.units, device.multiprocessors);
            plan.waiting_floats = static_cast<size_t>((apart + int64_t{plan.blocks} * args.waiting_slots) * floats);
        }
    }
    return plan;
}

} // namespace hw4::step
