// The tiles of x86's matrix unit (AMX), for the files compiled with -mamx-tile.
#pragma once

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "src/base/inline.h"
#include "src/cpu/block_kernel.h"
#include "src/cpu/x86_intrinsics.h"

namespace hw4::cpu {

// While it exists, all tiles have 16 x 64 bytes.
struct TileSession {
    struct alignas(64) Configuration {
        uint8_t palette = 1;
        uint8_t start_row = 0;
        uint8_t unused[14] = {};
        uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
        uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    static_assert(sizeof(Configuration) == 64);

    HW4_INLINE TileSession() {
        const Configuration configuration;
        keep_order(); // the instructions are assembly that does not say which memory it reads and writes
        _tile_loadconfig(&configuration);
    }
    HW4_INLINE ~TileSession() { _tile_release(); }
    TileSession(const TileSession&) = delete;
    TileSession& operator=(const TileSession&) = delete;
};

// Bits of cpuid's leaf 7, in edx.
constexpr unsigned kTiles = 1u << 24;
constexpr unsigned kTilesOfBytes = 1u << 25;
constexpr unsigned kTilesOfBf16 = 1u << 22;

// Linux gives the tiles' state only to processes that ask for it.
HW4_INLINE bool tiles_permitted() {
    constexpr long kAskForState = 0x1023; // ARCH_REQ_XCOMP_PERM
    constexpr long kTileData = 18;
    return syscall(SYS_arch_prctl, kAskForState, kTileData) == 0;
}

// Whether this processor has tiles and the instructions for these products, and the process may use them.
HW4_INLINE bool has_tiles(unsigned products) {
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    const unsigned wanted = kTiles | products;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & wanted) == wanted && tiles_permitted();
}

} // namespace hw4::cpu
