// Serializes values for exchange between ranks, which run the same program on the same kind of machine.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "src/base/error.h"

namespace hw4 {

class Parcel {
public:
    template <class T>
    Parcel& put(const T& value) {
        static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>, "has no meaning elsewhere");
        bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
        return *this;
    }
    Parcel& put(const std::string& text) {
        put(uint64_t{text.size()});
        bytes_ += text;
        return *this;
    }
    Parcel& put(const char* text) { return put(std::string(text)); }

    const std::string& bytes() const { return bytes_; }

private:
    std::string bytes_;
};

// Reads the values in the order in which they were written.
class OpenedParcel {
public:
    explicit OpenedParcel(std::string bytes) : bytes_(std::move(bytes)) {}

    template <class T>
    T take() {
        T value{};
        std::memcpy(&value, next(sizeof value), sizeof value);
        return value;
    }
    template <class T>
    void take(T& value) {
        if constexpr (std::is_same_v<T, std::string>)
            value = take_text();
        else
            value = take<T>();
    }
    std::string take_text() {
        const auto size = static_cast<size_t>(take<uint64_t>());
        return {next(size), size};
    }
    bool empty() const { return taken_ == bytes_.size(); }

private:
    const char* next(size_t size) {
        if (size > bytes_.size() - taken_)
            throw Error(ExitCode::internal, "a rank has sent less than another expects; are they one program?");
        taken_ += size;
        return bytes_.data() + (taken_ - size);
    }

    std::string bytes_;
    size_t taken_ = 0;
};

} // namespace hw4
