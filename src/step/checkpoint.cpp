#include "src/step/checkpoint.h"

#include <zlib.h>

#include <algorithm>
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
constexpr const char* kNoCrc = "00000000"; // until the numbers are known

SettingTexts metadata_of(const TrainingState& state, const std::string& crc) {
    SettingTexts metadata = texts_of(state.settings);
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

// copy(name, array, first, part, count) fills each part of the numbers, in their order. Returns their CRC-32.
template <class Copy>
uint64_t copy_parts(const Parameters& parameters, const Copy& copy) {
    std::vector<float> part(kPart);
    uint64_t crc = ::crc32_z(0, nullptr, 0);
    each_tensor(parameters, [&](const std::string& name, const Parameter& tensor, size_t array) {
        for (size_t done = 0; done < tensor.count(); done += kPart) {
            const size_t count = std::min(kPart, tensor.count() - done);
            copy(name, array, tensor.first + done, part.data(), count);
            crc = ::crc32_z(crc, reinterpret_cast<const unsigned char*>(part.data()), count * sizeof(float));
        }
    });
    return crc;
}

std::string shape_of(const Parameter& parameter) {
    return (parameter.is_vector() ? "[" : "[" + std::to_string(parameter.rows) + ",") +
           std::to_string(parameter.columns) + "]";
}

// The text begins with the length of the header.
std::string header_of(const TrainingState& state, const std::string& crc) {
    std::string text = R"({"__metadata__":{)";
    const SettingTexts metadata = metadata_of(state, crc);
    for (const auto& [name, value] : metadata)
        text += (&name == &metadata.front().first ? "\"" : ",\"") + name + R"(":")" + value + '"';
    text += '}';
    uint64_t begin = 0;
    each_tensor(parameters_of(state.settings.model), [&](const std::string& name, const Parameter& tensor, size_t) {
        const uint64_t end = begin + tensor.count() * sizeof(float);
        text += ",\"" + name + R"(":{"dtype":"F32","shape":)" + shape_of(tensor) + R"(,"data_offsets":[)" +
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
    const auto write = [&](const std::string&, size_t array, size_t first, float* part, size_t count) {
        get(array, first, part, count);
        file.write(part, count * sizeof(float));
    };
    const uint64_t crc = copy_parts(parameters_of(state.settings.model), write);
    const std::string whole = header_of(state, crc_text(crc));
    file.write_at(0, whole.data(), whole.size());
}

std::string CheckpointReader::metadata(const std::string& key) const {
    const std::string start = '"' + key + R"(":")";
    const size_t at = header_.find(start);
    if (at == std::string::npos) refuse(path_, "its metadata has no '" + key + "'");
    const size_t begin = at + start.size();
    return header_.substr(begin, header_.find('"', begin) - begin);
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
    const std::string revision = metadata("contract");
    const auto is_its = [&](const Contract* contract) { return step_revision(*contract) == revision; };
    const auto* const found = std::find_if(std::begin(kStepContracts), std::end(kStepContracts), is_its);
    if (found == std::end(kStepContracts))
        refuse(path_, "contract " + revision + ", need " + step_revision(kF32) + " or " + step_revision(kBf16));
    state_.settings.contract = *found;
    each_setting(state_.settings,
                 [&](const char* name, auto& value, auto least, auto most) { value = number(name, least, most); });
    const std::string why_not = why_no_model(state_.settings.model);
    if (!why_not.empty()) refuse(path_, why_not);
    const int64_t micro_batch = state_.settings.micro_batch;
    if ((micro_batch & (micro_batch - 1)) != 0) refuse(path_, "micro_batch '" + text_of(micro_batch) + "'");
    state_.step = number("step", int64_t{0}, state_.settings.steps);
    state_.tokens = number("tokens", int64_t{1}, INT64_MAX);
    state_.tokens_crc32 = metadata("tokens_crc32");
}

// The header is the one that write_checkpoint() gives this state.
void CheckpointReader::check_header() const {
    const std::string wanted = header_of(state_, crc32()).substr(kLengthBytes);
    if (header_ == wanted) return;
    const auto differs = std::mismatch(header_.begin(), header_.end(), wanted.begin(), wanted.end()).first;
    const auto at = static_cast<size_t>(differs - header_.begin());
    constexpr size_t kShown = 40; // bytes
    const auto shown = [&](const std::string& header) {
        return "'" + header.substr(std::min(header.rfind('"', at), at), kShown) + "'";
    };
    refuse(path_,
           "its header has " + shown(header_) + " at byte " + std::to_string(at) + " of it, need " + shown(wanted));
}

CheckpointReader::CheckpointReader(const std::string& name) : path_(name) {
    OpenFile file = open_input(name);
    const uint64_t size = stored_bytes(file);
    source_ = std::make_unique<PlainSource>(path_, std::move(file));
    uint64_t length = 0;
    if (size < kLengthBytes || source_->read_at(0, &length, kLengthBytes) != kLengthBytes || length > kMostHeader ||
        length > size - kLengthBytes)
        refuse(path_, std::to_string(size) + " bytes, which end in the header");
    header_.resize(length);
    if (source_->read_at(kLengthBytes, header_.data(), length) != length) refuse(path_, "it ends in the header");
    first_ = kLengthBytes + length;
    take_state();
    check_header();
    uint64_t bytes = 0;
    for (const Parameter& tensor : parameters_of(state_.settings.model).list)
        bytes += std::size(kArrays) * tensor.count() * sizeof(float);
    if (size - first_ != bytes)
        refuse(path_, std::to_string(size - first_) + " bytes after the header, need " + std::to_string(bytes));
}

void CheckpointReader::read(const PutFloats& put) const {
    uint64_t at = first_;
    const auto read = [&](const std::string& name, size_t array, size_t first, float* part, size_t count) {
        const size_t bytes = count * sizeof(float);
        if (source_->read_at(at, part, bytes) != bytes) refuse(path_, "it ends in " + name);
        at += bytes;
        put(array, first, part, count);
    };
    const uint64_t crc = copy_parts(parameters_of(state_.settings.model), read);
    if (crc_text(crc) != crc32()) refuse(path_, "its numbers have CRC-32 " + crc_text(crc) + ", need " + crc32());
}

} // namespace hw4::step
