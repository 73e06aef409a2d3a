#include "src/step/weights.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "src/base/parallel.h"
#include "src/contracts/rope.h"
#include "src/step/philox.h"

namespace hw4::step {
namespace {

constexpr double kCut = 3;

std::array<double, 2> normal_pair(const PhiloxBlock& drawn) {
    const double u = (static_cast<double>(wide(drawn[0], drawn[1]) >> 12) + 0.5) * 0x1p-52; // neither 0 nor 1
    const double w = static_cast<double>(wide(drawn[2], drawn[3]) >> 11) * 0x1p-53;
    const double radius = std::sqrt(-0x1.62e42fefa39efp+0 * log2_of(u)); // 2 ln2
    double sine = 0;
    double cosine = 0;
    sine_cosine(0x1.921fb54442d18p+2 * w, sine, cosine); // 2 pi
    return {radius * cosine, radius * sine};
}

double deviation_of(const Parameter& parameter) {
    if (parameter.initial == Initial::normal) return 1;
    return std::sqrt(2 / static_cast<double>(parameter.rows / parameter.parts + parameter.columns));
}

} // namespace

void draw_weights(const Parameter& parameter, size_t place, uint64_t seed, size_t first, size_t count, float* to) {
    if (parameter.is_vector()) {
        std::fill_n(to, count, 1.0f);
        return;
    }
    const double deviation = deviation_of(parameter);
    const auto what = static_cast<uint32_t>(place);
    for (size_t i = 0; i < count; i += 2) {
        const uint64_t block = (first + i) / 2;
        const std::array<double, 2> pair = normal_pair(philox(seed, block, what, 0));
        for (size_t half = 0; half < std::min<size_t>(2, count - i); ++half) {
            double normal = pair[half];
            for (uint32_t attempt = 1; !(std::fabs(normal) <= kCut); ++attempt)
                normal = normal_pair(philox(seed, block, what, attempt))[half];
            to[i + half] = static_cast<float>(deviation * normal);
        }
    }
}

void draw_all_weights(Machine& machine, const Parameters& parameters, uint64_t seed, int threads, float* to) {
    std::vector<float> drawn;
    for (size_t place = 0; place < parameters.list.size(); ++place) {
        const Parameter& tensor = parameters.list[place];
        drawn.resize(tensor.count());
        in_pieces(
            drawn.size(), kPieceNumbers,
            [&](size_t first, size_t count) { draw_weights(tensor, place, seed, first, count, drawn.data() + first); },
            threads);
        machine.put(to + tensor.first, drawn.data(), drawn.size());
    }
}

} // namespace hw4::step
