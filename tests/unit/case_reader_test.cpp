// Files as a fuzzer would find them, each read as the fuzzer does (../fuzz/case_reader.cpp). An input that once broke
// something belongs here.
#include <gtest/gtest.h>
#include <zlib.h>

#include "tests/fuzz/targets.h"
#include "tests/support/temporary_folder.h"

namespace hw4::fuzz {
namespace {

using Header = std::vector<int32_t>;
constexpr int32_t kMost = 2147483647;
constexpr int32_t kHalf = 1 << 30;

bool read(const std::string& bytes, const std::string& what) {
    bool is_case = false;
    EXPECT_NO_THROW(is_case = case_reader(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size())) << what;
    return is_case;
}

// Numbers below 2 of any element type, or one byte again and again.
std::string file_of(const Header& header, size_t bytes, int byte = -1) {
    std::string data(bytes, static_cast<char>(byte));
    for (size_t i = 0; i < bytes && byte < 0; ++i) data[i] = static_cast<char>(i * 37 % 64);
    return bytes_of(header.data(), header.size()) + data;
}

Header long_header(const std::vector<std::pair<size_t, int32_t>>& changes = {}) {
    Header header = {-2, 0, 0, 0, 1, 2, 1, 2, 3, 2, 2, 0, 0, 0, 0, 0};
    for (const auto& [field, value] : changes) header[field] = value;
    return header;
}

Header with_lengths(int32_t first, int32_t second) {
    Header header = long_header({{4, 2}, {14, 1}});
    header.insert(header.end(), {first, second});
    return header;
}

std::string npy(const std::string& element, const std::string& order, const std::string& shape) {
    const std::string words = "{'descr': " + element + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
    const auto size = static_cast<uint16_t>(words.size());
    return std::string("\x93NUMPY\1\0", 8) + bytes_of(&size, 1) + words;
}

std::string reversed(Header header) {
    for (int32_t& field : header) field = static_cast<int32_t>(__builtin_bswap32(static_cast<uint32_t>(field)));
    return bytes_of(header.data(), header.size());
}

std::vector<std::string> good_files() {
    return {file_of({1, 1, 1}, 12),
            file_of({2, 3, 2}, 144),
            file_of({2, 3, 2}, 192),
            file_of(long_header(), 80),
            file_of(long_header({{1, 1}}), 112),
            file_of(long_header({{2, 1}}), 80),
            file_of(long_header({{3, 1}}), 40),
            file_of(long_header({{3, 2}}), 40),
            file_of(long_header({{10, 3}}), 92),
            file_of(with_lengths(3, 1), 160),
            npy("'<f4'", "False", "(2, 3, 3, 2)") + file_of({}, 144)};
}

// Every file is cut or spoilt at every byte. The gzip streams hold it whole, cut or in two members.
TEST(CaseReaderTakes, AnyCutAndAnySpoiltByte) {
    for (const std::string& good : good_files()) {
        const std::string about = bytes_of(good.data(), 16) + ", " + std::to_string(good.size()) + " bytes, ";
        for (const std::string& form : {good, gzipped(good)}) {
            EXPECT_TRUE(read(form, about)) << about;
            EXPECT_FALSE(read(form.substr(0, form.size() - 1), about)) << about;
            read(form + "x", about + "goes on");
            read(form + std::string(20, '\0'), about + "zeros follow");
            read(form + "\x1f", about + "a mark follows");
            for (size_t at = 0; at < form.size(); ++at) {
                read(form.substr(0, at), about + "cut at " + std::to_string(at));
                for (const char mask : {'\xff', '\1'}) {
                    std::string spoilt = form;
                    spoilt[at] = static_cast<char>(spoilt[at] ^ mask);
                    read(spoilt, about + "spoilt at " + std::to_string(at));
                }
            }
        }
        read(gzipped(good.substr(0, good.size() - 1)), about + "cut, in gzip");
        read(gzipped(good + "x"), about + "goes on, in gzip");
        read(gzipped("") + gzipped(good.substr(0, good.size() / 2)) + gzipped(good.substr(good.size() / 2)),
             about + "members");
        read(gzipped(gzipped(good)), about + "gzip in gzip");
    }
}

TEST(CaseReaderTakes, AnyValues) {
    for (const int byte : {0, 0x60, 0x7f, 0xff}) { // scores that overflow, or NaN
        read(file_of({2, 3, 2}, 144, byte), "values of " + std::to_string(byte));
        for (const int32_t element : {0, 1, 2})
            read(file_of(long_header({{3, element}}), element == 0 ? 80 : 40, byte), "of " + std::to_string(byte));
    }
    for (const float x : {1.0f, 1.0000001f}) // the largest score and value that f32 takes, or one beyond
        for (const std::vector<float>& values :
             {std::vector<float>{0x1p63f, 0x1p63f * x, 1}, {0, 0, 0, 0, 0x1p51f * x, -0x1p51f}})
            read(file_of({1, static_cast<int32_t>(values.size() / 3), 1}, 0) + bytes_of(values.data(), values.size()),
                 "at the limit");
}

TEST(CaseReaderTakes, AnyHeader) {
    const std::vector<Header> headers = {
        {0, 1, 1},
        {1, -1, 1},
        {1, 1, 0},
        {kMost, kMost, kMost},
        {kHalf, kHalf, 4},
        {1 << 16, 1 << 16, 1},
        {1 << 20, 1 << 20, 1 << 19},
        {1, 1, kMost},
        {1, 1 << 20, 1},
        {1, 1000, 1},
        {-3, 0, 0, 0},
        long_header({{4, 0}}),
        long_header({{5, 4}, {6, 3}}),
        long_header({{6, 0}}),
        long_header({{7, -1}}),
        long_header({{10, kMost}}),
        long_header({{9, kMost}, {10, kMost}}),
        long_header({{8, 1 << 20}}),
        long_header({{4, kMost}, {5, kMost}, {6, kMost}, {7, kMost}, {8, kMost}, {9, kMost}, {10, kMost}}),
        long_header({{4, kHalf}, {5, kHalf / 2}, {6, kHalf / 2}, {8, 1}}),
        long_header({{4, 1 << 13}, {7, 1 << 12}, {8, 1 << 12}, {9, 8}, {10, 8}}),
        with_lengths(3, 0),
        with_lengths(4, 1)};
    for (const Header& header : headers)
        for (const size_t more : {0, 12, 160}) {
            read(file_of(header, more), "header " + testing::PrintToString(header));
            read(gzipped(file_of(header, more)), "in gzip, header " + testing::PrintToString(header));
        }
    for (const Header& header : {Header{1, 2, 3}, Header{2, 128, 64}, long_header()})
        for (const size_t more : {0, 72, 80}) read(reversed(header) + std::string(more, '\0'), "big-endian");
}

TEST(CaseReaderTakes, OtherFormats) {
    const std::string data = file_of({}, 144);
    for (const std::string& file :
         {std::string("batch,tokens,dim\n1,2,3\n"), std::string("PK\3\4\x14\0\0\0\0\0\0\0\0\0", 14),
          npy("'<f8'", "False", "(2, 3, 3, 2)"), npy("'<f4'", "True", "(2, 3, 3, 2)"),
          npy("'<f4'", "False", "(2147483647, 3, 2147483647, 2147483647)"), std::string("\x93NUMPY\1\0\0\0ab", 12),
          npy("'<f4'", "False", "(" + std::string(1000, '\n') + ")"), npy("'<f4'", "False", "(2, 3, 3, 2"),
          npy("'<f4'", "False", "(2, 3, 3, 2), 'shape': (1, 3, 6, 2)") + data}) {
        read(file, file.substr(0, 80));
        read(gzipped(file), file.substr(0, 80));
    }
    read(gzipped(""), "gzip of nothing");
    read(gzipped(file_of({1, 1, 1}, 1 << 20, 0)), "a small file of much data");
    // A gzip head with fields that compressors rarely write: extra bytes, a name, a comment, a checksum of these.
    std::string head("\x1f\x8b\x08\x1e\0\0\0\0\0\0\3\0abcname\0comment\0", 28);
    const auto sum =
        static_cast<uint16_t>(::crc32(0, reinterpret_cast<const Bytef*>(head.data()), static_cast<uInt>(head.size())));
    read(head + bytes_of(&sum, 1) + gzipped(file_of({1, 1, 1}, 12)).substr(10), "gzip with all fields");
}

} // namespace
} // namespace hw4::fuzz
