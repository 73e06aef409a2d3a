#include "src/step/checkpoint.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/base/numbers.h"

namespace hw4::step {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMostHeader = 100'000'000; // as the safetensors library has it
constexpr size_t kPart = size_t{1} << 20;     // floats copied at a time
constexpr const char* kArrays[] = {"", "m.", "v."};
const std::string kMetadata = "__metadata__";
constexpr const char* kNoCrc = "00000000"; // until the numbers are known

std::string digits_of(uint64_t crc) {
    std::array<char, 32> digits{};
    std::snprintf(digits.data(), digits.size(), "%08llx", static_cast<unsigned long long>(crc));
    return digits.data();
}

uint64_t add_to(uint64_t crc, const float* from, size_t count) {
    return ::crc32_z(crc, reinterpret_cast<const unsigned char*>(from), count * sizeof(float));
}

SettingTexts metadata_of(const TrainingState& state, const std::string& crc) {
    SettingTexts metadata = {{"contract", kRevision}};
    for (auto& setting : texts_of(state.settings)) metadata.push_back(std::move(setting));
    metadata.insert(metadata.end(), {{"step", text_of(state.step)},
                                     {"tokens", text_of(state.tokens)},
                                     {"tokens_crc32", state.tokens_crc32},
                                     {"crc32", crc}});
    return metadata;
}

// visit(name, parameter, array) in the order of the numbers.
template <class Visit>
void each_tensor(const Parameters& parameters, const Visit& visit) {
    for (size_t array = 0; array < std::size(kArrays); ++array)
        for (const Parameter& parameter : parameters.list) visit(kArrays[array] + parameter.name, parameter, array);
}

std::vector<int64_t> shape_of(const Parameter& parameter) {
    return parameter.is_vector ? std::vector{parameter.columns} : std::vector{parameter.rows, parameter.columns};
}

std::string in_words(const std::vector<int64_t>& shape) {
    std::string words;
    for (const int64_t size : shape) words += (words.empty() ? "" : ",") + std::to_string(size);
    return "[" + words + "]";
}

// With the length before it.
std::string header_of(const TrainingState& state, const std::string& crc) {
    std::string text = "{\"" + kMetadata + "\":{";
    const SettingTexts metadata = metadata_of(state, crc);
    for (const auto& [name, value] : metadata)
        text += (&name == &metadata.front().first ? "\"" : ",\"") + name + R"(":")" + value + '"';
    text += '}';
    uint64_t begin = 0;
    each_tensor(parameters_of(state.settings.model), [&](const std::string& name, const Parameter& tensor, size_t) {
        const uint64_t end = begin + tensor.count() * sizeof(float);
        text += ",\"" + name + R"(":{"dtype":"F32","shape":)" + in_words(shape_of(tensor)) + R"(,"data_offsets":[)" +
                std::to_string(begin) + "," + std::to_string(end) + "]}";
        begin = end;
    });
    text += '}';
    text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
    const uint64_t length = text.size();
    std::string bytes(kLengthBytes, '\0');
    std::memcpy(bytes.data(), &length, kLengthBytes);
    return bytes + text;
}

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
    throw Error(ExitCode::bad_data, path + ": no checkpoint of hw4 train: " + what);
}

} // namespace

void write_checkpoint(OutputFile& file, const TrainingState& state, const GetFloats& get) {
    const std::string start = header_of(state, kNoCrc);
    file.write(start.data(), start.size());
    std::vector<float> part(kPart);
    uint64_t crc = ::crc32_z(0, nullptr, 0);
    each_tensor(parameters_of(state.settings.model), [&](const std::string&, const Parameter& tensor, size_t array) {
        for (size_t done = 0; done < tensor.count(); done += kPart) {
            const size_t count = std::min(kPart, tensor.count() - done);
            get(array, tensor.first + done, part.data(), count);
            crc = add_to(crc, part.data(), count);
            file.write(part.data(), count * sizeof(float));
        }
    });
    const std::string whole = header_of(state, digits_of(crc));
    file.write_at(0, whole.data(), whole.size());
}

std::string CheckpointReader::metadata(const std::string& key) const {
    const auto found = header_.find(kMetadata + kWithin + key);
    if (found == header_.end()) refuse(path_, "its metadata has no '" + key + "'");
    return found->second.substr(1, found->second.size() - 2);
}

template <class Number>
Number CheckpointReader::number(const std::string& key, Number least, Number most) const {
    const std::string text = metadata(key);
    const auto value = number_in(std::string_view(text), least, most);
    if (!value || text_of(*value) != text) refuse(path_, key + " '" + text + "' in its metadata");
    return *value;
}

std::string CheckpointReader::crc32() const { return metadata("crc32"); }

void CheckpointReader::take_state() {
    if (metadata("contract") != kRevision) refuse(path_, "contract " + metadata("contract") + ", need " + kRevision);
    each_setting(state_.settings,
                 [&](const char* name, auto& value, auto least, auto most) { value = number(name, least, most); });
    const std::string why_not = why_no_model(state_.settings.model);
    if (!why_not.empty()) refuse(path_, why_not);
    state_.step = number("step", int64_t{0}, state_.settings.steps);
    state_.tokens = number("tokens", int64_t{1}, INT64_MAX);
    state_.tokens_crc32 = metadata("tokens_crc32");
}

// The header has all that this program would write, in any order, and nothing else.
void CheckpointReader::check_header() const {
    const auto shown = [](const FlatJson::value_type& entry) {
        std::string name = entry.first;
        std::replace(name.begin(), name.end(), kWithin, ' ');
        return name + " " + entry.second;
    };
    FlatJson expected = flat_json(path_, header_of(state_, crc32()).substr(kLengthBytes));
    for (const auto& entry : header_) {
        const auto found = expected.find(entry.first);
        if (found == expected.end()) refuse(path_, "its header has " + shown(entry));
        if (found->second != entry.second) refuse(path_, "its header has " + shown(entry) + ", need " + found->second);
        expected.erase(found);
    }
    if (!expected.empty()) refuse(path_, "its header has no " + shown(*expected.begin()));
}

CheckpointReader::CheckpointReader(const std::string& name) : path_(name) {
    OpenFile file = open_input(name);
    const uint64_t size = stored_bytes(file);
    source_ = std::make_unique<PlainSource>(path_, std::move(file));
    uint64_t length = 0;
    if (size < kLengthBytes || source_->read_at(0, &length, kLengthBytes) != kLengthBytes || length > kMostHeader ||
        length > size - kLengthBytes)
        refuse(path_, std::to_string(size) + " bytes, which end in the header");
    std::string text(length, ' ');
    if (source_->read_at(kLengthBytes, text.data(), length) != length) refuse(path_, "it ends in the header");
    header_ = flat_json(path_, text);
    first_ = kLengthBytes + length;
    take_state();
    check_header();
    uint64_t bytes = 0;
    each_tensor(parameters_of(state_.settings.model),
                [&](const std::string&, const Parameter& tensor, size_t) { bytes += tensor.count() * sizeof(float); });
    if (size - first_ != bytes)
        refuse(path_, std::to_string(size - first_) + " bytes after the header, need " + std::to_string(bytes));
}

void CheckpointReader::read(const PutFloats& put) const {
    std::vector<float> part(kPart);
    uint64_t crc = ::crc32_z(0, nullptr, 0);
    uint64_t at = first_;
    each_tensor(parameters_of(state_.settings.model),
                [&](const std::string& name, const Parameter& tensor, size_t array) {
                    for (size_t done = 0; done < tensor.count(); done += kPart) {
                        const size_t count = std::min(kPart, tensor.count() - done);
                        const size_t bytes = count * sizeof(float);
                        if (source_->read_at(at, part.data(), bytes) != bytes) refuse(path_, "it ends in " + name);
                        at += bytes;
                        crc = add_to(crc, part.data(), count);
                        put(array, tensor.first + done, part.data(), count);
                    }
                });
    if (digits_of(crc) != crc32()) refuse(path_, "its numbers have CRC-32 " + digits_of(crc) + ", need " + crc32());
}

} // namespace hw4::step
