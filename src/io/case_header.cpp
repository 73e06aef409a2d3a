#include "src/io/case_header.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>

#include "src/base/error.h"
#include "src/problem/words.h"

namespace hw4 {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file's numbers are little-endian");

constexpr int32_t kVersion2 = -2;

using ShortHeader = std::array<int32_t, 3>;
using LongHeader = std::array<int32_t, 16>;
static_assert(sizeof(ShortHeader) == kShortHeaderBytes && sizeof(LongHeader) == kLongHeaderBytes);

// The fields of version 2, by place.
enum Field : size_t { kVersion, kOperation, kMask, kElement, kB, kHeads, kKvHeads, kNq, kNk, kD, kDv, kWindow, kScale };
constexpr size_t kLengths = kScale + 2; // the scale is a double
constexpr size_t kFirstUnused = kLengths + 1;
constexpr const char* kFieldNames[] = {"version",         "operation", "mask", "element", "B",   "heads",
                                       "key-value heads", "N_q",       "N_k",  "d",       "d_v", "window"};

template <class Fields>
Fields fields_of(const Bytes& start) {
    Fields fields{};
    std::memcpy(fields.data(), start.data(), sizeof fields);
    return fields;
}

int32_t swap_bytes(int32_t value) { return static_cast<int32_t>(__builtin_bswap32(static_cast<uint32_t>(value))); }

ShortHeader swapped(const ShortHeader& h) { return {swap_bytes(h[0]), swap_bytes(h[1]), swap_bytes(h[2])}; }

[[noreturn]] void refuse(const std::string& path, const std::string& name, size_t place, int32_t value,
                         const std::string& need, const std::string& hint = "") {
    throw Error(ExitCode::bad_data, path + ": header: " + name + " = " + std::to_string(value) + ", need " + need +
                                        " (offset " + std::to_string(4 * place) + ")" + hint);
}

CaseHeader of_version_1(const std::string& path, const Bytes& start) {
    constexpr std::array<const char*, 3> names = {"B", "N", "d"};
    const auto h = fields_of<ShortHeader>(start);
    for (size_t i = 0; i < h.size(); ++i) {
        if (h[i] >= 1) continue;
        const CaseHeader other = swapped_header(start);
        const bool int64 = h[0] >= 1 && h[1] == 0 && h[2] >= 1; // the upper half of B is 0
        const std::string hint = swap_bytes(h[0]) == kVersion2 ? "; wrong byte order? swapped it begins as version 2"
                                 : other.problem.batches > 0 ? "; wrong byte order? swapped it reads " + describe(other)
                                 : int64 ? "; int64? so read it begins with B = " + std::to_string(h[0]) +
                                               ", N = " + std::to_string(h[2]) + "; need int32"
                                         : "";
        refuse(path, names[i], i, h[i], "at least 1", hint);
    }
    return {Problem(h[0], h[1], h[2]), kShortHeaderBytes};
}

// "0 (forward) or 1 (backward)"
std::string known_operations() {
    std::string known;
    for (const Operation* operation : kOperations)
        known += (known.empty() ? "" : " or ") + std::to_string(operation->file_code) + " (" + operation->name + ")";
    return known;
}

const Operation* find_operation(int32_t code) {
    for (const Operation* operation : kOperations)
        if (operation->file_code == code) return operation;
    return nullptr;
}

class Version2 {
public:
    Version2(const std::string& path, const Bytes& start) : path_(path), h_(fields_of<LongHeader>(start)) {}

    CaseHeader parse() const {
        Problem problem;
        problem.operation = find_operation(h_[kOperation]);
        if (problem.operation == nullptr) refuse(kOperation, known_operations());
        if (h_[kMask] != 0 && h_[kMask] != 1) refuse(kMask, "0 (none) or 1 (causal)");
        problem.mask = h_[kMask] == 0 ? Mask::none : Mask::causal;
        if (h_[kElement] < 0 || h_[kElement] >= static_cast<int32_t>(std::size(kEveryElement)))
            refuse(kElement, "0 (float32), 1 (bf16) or 2 (fp16)");
        problem.element = kEveryElement[h_[kElement]];
        for (size_t field = kB; field <= kDv; ++field)
            if (h_[field] < 1) refuse(field, "at least 1");
        if (h_[kHeads] % h_[kKvHeads] != 0)
            refuse(kKvHeads, "a number that divides heads = " + std::to_string(h_[kHeads]));
        if (h_[kWindow] < 0) refuse(kWindow, "at least 1, or 0 for none");
        if (h_[kWindow] > 0 && problem.mask == Mask::none) refuse(kWindow, "0, or the causal mask");
        if (h_[kDv] != h_[kD] && std::max(h_[kDv], h_[kD]) > kMostPadded)
            refuse(kDv, "d = " + std::to_string(h_[kD]) + ", or both at most " + std::to_string(kMostPadded));
        if (h_[kLengths] != 0 && h_[kLengths] != 1) refuse(kLengths, "0, or 1 where lengths follow");
        for (size_t field = kFirstUnused; field < h_.size(); ++field)
            if (h_[field] != 0) refuse(field, "0");
        problem.window = h_[kWindow];
        problem.scale = scale();
        problem.batches = h_[kB];
        problem.heads = h_[kHeads];
        problem.kv_heads = h_[kKvHeads];
        problem.queries = h_[kNq];
        problem.keys = h_[kNk];
        problem.by_lengths = h_[kLengths] == 1;
        const size_t lengths = problem.by_lengths ? sizeof(int32_t) * static_cast<size_t>(problem.batches) : 0;
        return {problem.of_columns(h_[kD], h_[kDv]), kLongHeaderBytes + lengths, HeaderForm::version_2};
    }

private:
    double scale() const {
        double scale = 0;
        std::memcpy(&scale, &h_[kScale], sizeof scale);
        if (scale >= 0 && std::isfinite(scale)) return scale;
        throw Error(ExitCode::bad_data, path_ +
                                            ": header: the scale needs a finite number above 0, or 0 for 1/sqrt(d) " +
                                            "(offset " + std::to_string(4 * kScale) + ")");
    }
    [[noreturn]] void refuse(size_t field, const std::string& need) const {
        const std::string name = field < kScale      ? kFieldNames[field]
                                 : field == kLengths ? "lengths"
                                                     : "field " + std::to_string(field);
        hw4::refuse(path_, name, field, h_[field], need);
    }

    const std::string& path_;
    const LongHeader h_;
};

int32_t as_field(int64_t size) { return static_cast<int32_t>(size); }

template <class Fields>
Bytes bytes_of(const Fields& fields) {
    Bytes bytes(sizeof fields);
    std::memcpy(bytes.data(), fields.data(), sizeof fields);
    return bytes;
}

} // namespace

size_t header_bytes(const Bytes& start) {
    int32_t first = 0;
    if (start.size() < sizeof first) return kShortHeaderBytes;
    std::memcpy(&first, start.data(), sizeof first);
    return first == kVersion2 ? kLongHeaderBytes : kShortHeaderBytes;
}

CaseHeader parse_header(const std::string& path, const Bytes& start) {
    if (header_bytes(start) == kShortHeaderBytes) return of_version_1(path, start);
    return Version2(path, start).parse();
}

Bytes short_header_of(const Problem& problem) {
    return bytes_of(ShortHeader{as_field(problem.batches), as_field(problem.queries), as_field(problem.dim)});
}

Bytes header_of(const Problem& problem, bool long_form) {
    if (!long_form && is_plain(problem)) return short_header_of(problem);
    LongHeader h = {kVersion2, problem.operation->file_code, problem.mask == Mask::none ? 0 : 1};
    const int64_t sizes[] = {problem.batches, problem.heads,     problem.kv_heads,    problem.queries,
                             problem.keys,    problem.key_dim(), problem.value_dim(), problem.window};
    h[kElement] = static_cast<int32_t>(problem.element);
    std::transform(std::begin(sizes), std::end(sizes), &h[kB], as_field);
    std::memcpy(&h[kScale], &problem.scale, sizeof problem.scale);
    h[kLengths] = problem.by_lengths ? 1 : 0;
    return bytes_of(h);
}

// 128 bits are enough for four operands: 16 * 2^31 * (2^31 * 2^31) * 2^31 is 2^128, and every field is below 2^31.
Wide file_bytes(const CaseHeader& header) {
    const Problem& problem = header.problem;
    Wide numbers = 0;
    for (const Operand& operand : problem.operation->inputs)
        numbers +=
            Wide(problem.heads_of(operand)) * Wide(problem.head_rows(operand)) * Wide(problem.columns_of(operand));
    return Wide{header.bytes} + Wide{bytes_of(problem.element)} * numbers * Wide(problem.batches);
}

std::string decimal(Wide value) {
    std::string digits;
    do {
        digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(value % 10)));
        value /= 10;
    } while (value > 0);
    return digits;
}

std::string describe(const CaseHeader& header) {
    const Problem& problem = header.problem;
    const auto text = [](int64_t number) { return std::to_string(number); };
    if (header.form != HeaderForm::version_2)
        return "B = " + text(problem.batches) + ", N = " + text(problem.queries) + ", d = " + text(problem.dim);
    return std::string(problem.operation->name) + ", B = " + text(problem.batches) +
           ", heads = " + text(problem.heads) + ", key-value heads = " + text(problem.kv_heads) +
           ", N_q = " + text(problem.queries) + ", N_k = " + text(problem.keys) + ", d = " + text(problem.key_dim()) +
           (problem.is_padded() ? ", d_v = " + text(problem.value_dim()) : "") +
           (problem.element == Element::float32 ? "" : std::string(", ") + name_of(problem.element));
}

CaseHeader swapped_header(const Bytes& start) {
    const ShortHeader h = swapped(fields_of<ShortHeader>(start));
    const bool plausible = std::all_of(h.begin(), h.end(), [](int32_t v) { return v >= 1 && v <= (1 << 24); });
    return {plausible ? Problem(h[0], h[1], h[2]) : Problem(), kShortHeaderBytes};
}

} // namespace hw4
