#include "src/base/json.h"

#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

using Kind = JsonValue::Kind;

TEST(JsonValue, HasEveryKind) {
    const JsonValue value = parse_json(
        R"( {"a": [1, -2.5e3, "x\"\\\n\u0041"], "b": {"c": null}, "d": true, "e": false, "f": [], "g": {}} )", "f");
    EXPECT_EQ(value.find("a")->list.size(), 3);
    EXPECT_EQ(value.find("a")->list[1].number, -2500);
    EXPECT_EQ(value.find("a")->list[2].string, "x\"\\\nA");
    EXPECT_TRUE(value.find("b")->find("c")->is(Kind::null));
    EXPECT_TRUE(value.find("d")->boolean);
    EXPECT_FALSE(value.find("e")->boolean);
    EXPECT_TRUE(value.find("f")->list.empty());
    EXPECT_EQ(value.find("h"), nullptr);
}

TEST(JsonValue, ReadsBackWhatTheProgramWrites) {
    const std::string name = "a \"name\" \\ with\ttabs";
    EXPECT_EQ(parse_json(json_string(name), "f").string, name);
    EXPECT_EQ(parse_json(json_number(0.00144043075), "f").number, 0.00144043075);
}

TEST(JsonValue, RefusesWhatIsNone) {
    for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "{\"a\": 1,}", "nul", "1 2", "\"open", "\"\\q\"",
                             "\"\\u00g0\"", "\"\\u12", "-", "\"line\nbreak\"", "{1: 2}"})
        EXPECT_EQ(test::failure_of([&] { parse_json(text, "f.json"); }).code, ExitCode::bad_data) << text;
    EXPECT_EQ(test::failure_of([] { parse_json("[1 2]", "f.json"); }),
              (test::Failure{ExitCode::bad_data, "f.json: no JSON: need ']' at byte 3 of 5"}));
}

TEST(JsonValue, RefusesDepthThatWouldEndTheStack) {
    const std::string deep(100000, '[');
    EXPECT_EQ(test::failure_of([&] { parse_json(deep, "f"); }).code, ExitCode::bad_data);
}

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
