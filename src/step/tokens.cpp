#include "src/step/tokens.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "src/base/error.h"
#include "src/base/standard_streams.h"
#include "src/io/byte_source.h"
#include "src/io/npy.h"
#include "src/step/philox.h"

namespace hw4::step {
namespace {

constexpr size_t kPipeStep = size_t{1} << 24;
constexpr size_t kNpyStart = 10; // bytes that say how long the header is

} // namespace

int64_t start_of_sequence(int64_t seed, int64_t sequence, int64_t tokens, int64_t context) {
    const PhiloxBlock drawn = philox(static_cast<uint64_t>(seed), static_cast<uint64_t>(sequence), kForSequences, 0);
    return static_cast<int64_t>(below(static_cast<uint64_t>(tokens - context), wide(drawn[0], drawn[1])));
}

TokenFile::TokenFile(const std::string& name, int bits, const Configuration& settings) : path_(shown_input(name)) {
    read(name);
    take_form(bits);
    if (count_ <= settings.context)
        throw Error(ExitCode::bad_data, path_ + ": has " + std::to_string(count_) + " tokens, need " +
                                            std::to_string(settings.context + 1) + ": a context and the token after");
    check(settings.model.vocabulary);
}

void TokenFile::read(const std::string& name) {
    OpenFile file = open_input(name);
    size_t step = S_ISREG(file.status.st_mode) ? stored_bytes(file) + 1 : kPipeStep; // the end is found by one more
    PlainSource source(path_, std::move(file));
    while (true) {
        const size_t before = bytes_.size();
        bytes_.resize(before + step);
        const size_t got = source.read(bytes_.data() + before, step);
        bytes_.resize(before + got);
        if (got < step) return;
        step = std::max(kPipeStep, bytes_.size());
    }
}

void TokenFile::take_form(int bits) {
    const Bytes start(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(std::min(bytes_.size(), kNpyStart)));
    width_ = static_cast<size_t>(bits / 8);
    if (!is_npy(start)) {
        if (bytes_.size() % width_ != 0)
            throw Error(ExitCode::bad_data, path_ + ": has " + std::to_string(bytes_.size()) +
                                                " bytes, need a multiple of " + std::to_string(width_));
        count_ = static_cast<int64_t>(bytes_.size() / width_);
        return;
    }
    begin_ = npy_header_bytes(path_, start);
    if (bytes_.size() < begin_) throw Error(ExitCode::bad_data, path_ + ": header truncated (.npy)");
    const NpyTokens form =
        parse_npy_tokens(path_, Bytes(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(begin_)));
    width_ = static_cast<size_t>(form.bytes);
    count_ = form.count;
    const size_t wanted = begin_ + static_cast<size_t>(count_) * width_;
    if (bytes_.size() != wanted)
        throw Error(ExitCode::bad_data, path_ + ": has " + std::to_string(bytes_.size()) + " bytes, need " +
                                            std::to_string(wanted) + " for the " + std::to_string(count_) +
                                            " tokens of its header");
}

uint32_t TokenFile::at(int64_t index) const {
    const unsigned char* const from = bytes_.data() + begin_ + static_cast<size_t>(index) * width_;
    uint16_t narrow = 0;
    uint32_t token = 0;
    if (width_ == sizeof narrow) {
        std::memcpy(&narrow, from, sizeof narrow); // little-endian, as every machine here is
        return narrow;
    }
    std::memcpy(&token, from, sizeof token);
    return token;
}

void TokenFile::check(int64_t vocabulary) {
    constexpr int64_t kPiece = 1 << 14;
    std::array<uint32_t, kPiece> piece{};
    uLong crc = ::crc32_z(0, nullptr, 0);
    for (int64_t first = 0; first < count_; first += kPiece) {
        const int64_t count = std::min(kPiece, count_ - first);
        for (int64_t i = 0; i < count; ++i) {
            const uint32_t token = at(first + i);
            if (token >= vocabulary)
                throw Error(ExitCode::bad_data, path_ + ": token " + std::to_string(first + i) + " is " +
                                                    std::to_string(token) + ", need less than the vocabulary, " +
                                                    std::to_string(vocabulary));
            piece[static_cast<size_t>(i)] = token;
        }
        crc = ::crc32_z(crc, reinterpret_cast<const unsigned char*>(piece.data()),
                        static_cast<size_t>(count) * sizeof piece[0]);
    }
    crc32_ = crc_text(crc);
}

Tokens TokenFile::sequences(const Configuration& settings, int64_t step, int64_t first, int64_t count) const {
    Tokens tokens;
    tokens.sequences = count;
    tokens.context = settings.context;
    for (int64_t i = first; i < first + count; ++i) {
        const int64_t start = start_of_sequence(settings.seed, step * settings.batch + i, count_, settings.context);
        for (int64_t place = start; place < start + settings.context; ++place) {
            tokens.inputs.push_back(static_cast<int32_t>(at(place)));
            tokens.targets.push_back(static_cast<int32_t>(at(place + 1)));
        }
    }
    return tokens;
}

} // namespace hw4::step
