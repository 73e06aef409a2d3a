#include "src/base/json.h"

#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

TEST(JsonText, EscapesOddFileNames) {
    EXPECT_EQ(json_string("a \"b\" \\c/d"), R"("a \"b\" \\c/d")");
    EXPECT_EQ(json_string("tab\tline\nend\r"), R"("tab\u0009line\u000aend\u000d")");
    EXPECT_EQ(json_string("\x01\x1f\x7f"), R"("\u0001\u001f\u007f")");
    EXPECT_EQ(json_string("\xc3\xa9\xe6\xbc\xa2"), R"("\u00e9\u6f22")");
    EXPECT_EQ(json_string("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"), R"("\ud800\udc00\udbff\udfff")");
    EXPECT_EQ(json_string("\x80\xff\xed\xb3\xbf"), R"("\udc80\udcff\udced\udcb3\udcbf")"); // no UTF-8, byte by byte
}

} // namespace
} // namespace hw4
