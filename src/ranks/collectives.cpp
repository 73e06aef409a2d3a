#include "src/ranks/collectives.h"

#include <cstring>

#include "src/ranks/parcel.h"
#include "src/ranks/ranks.h"

namespace hw4 {
namespace {

std::string bytes_of(const float* values, const Piece& piece) {
    return {reinterpret_cast<const char*>(values + piece.first), piece.count * sizeof(float)};
}

// The bytes are exactly the piece's numbers.
void put(const std::string& bytes, float* values, const Piece& piece) {
    if (bytes.size() != piece.count * sizeof(float))
        throw Error(ExitCode::internal, "a rank has sent " + std::to_string(bytes.size()) + " bytes, expected " +
                                            std::to_string(piece.count * sizeof(float)));
    std::memcpy(values + piece.first, bytes.data(), bytes.size());
}

} // namespace

std::unique_ptr<Collectives> Ranks::collectives() { return std::make_unique<ExchangedNumbers>(*this); }

void ExchangedNumbers::sum(float* values, size_t count) {
    if (ranks_.count() == 1) return;
    const std::vector<std::string> all = ranks_.exchange(bytes_of(values, {0, count}));
    std::vector<float> others(count);
    put(all.front(), values, {0, count});
    for (size_t rank = 1; rank < all.size(); ++rank) {
        put(all[rank], others.data(), {0, count});
        for (size_t i = 0; i < count; ++i) values[i] += others[i];
    }
}

void ExchangedNumbers::all_to_all(const float* values, const std::vector<Piece>& to, float* received,
                                  const std::vector<Piece>& from) {
    Parcel mine;
    for (const Piece& piece : to) mine.put(bytes_of(values, piece));
    const std::vector<std::string> all = ranks_.exchange(mine.bytes());
    for (size_t rank = 0; rank < all.size(); ++rank) {
        OpenedParcel parcel(all[rank]);
        for (int k = 0; k < ranks_.rank(); ++k) parcel.take_text(); // skips the numbers for others
        put(parcel.take_text(), received, from[rank]);
    }
}

void ExchangedNumbers::all_gather(float* values, const std::vector<Piece>& pieces) {
    const std::vector<std::string> all = ranks_.exchange(bytes_of(values, pieces[static_cast<size_t>(ranks_.rank())]));
    for (size_t rank = 0; rank < all.size(); ++rank) put(all[rank], values, pieces[rank]);
}

void ExchangedNumbers::meet() { ranks_.exchange(""); }

} // namespace hw4
