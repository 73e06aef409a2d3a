#include "src/io/npy.h"

#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

Bytes bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

// A header with this text, as another program might write it.
Bytes header_with(const std::string& words) {
    std::string header("\x93NUMPY\1\0", 8);
    header += static_cast<char>(words.size() % 256);
    header += static_cast<char>(words.size() / 256);
    return bytes_of(header + words);
}

std::string words_of(const std::string& element, const std::string& order, const std::string& shape) {
    return "{'descr': " + element + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

Failure said_of(const std::string& words) {
    return failure_of([&] { parse_npy_header("a.npy", header_with(words)); });
}

Failure bad(const std::string& what) { return {ExitCode::bad_data, "a.npy: is a NumPy .npy file " + what}; }

TEST(Npy, IsToldByItsFirstBytes) {
    EXPECT_TRUE(is_npy(header_with("{}")));
    EXPECT_FALSE(is_npy(bytes_of("\x93NUMPX\1")));
    EXPECT_FALSE(is_npy(bytes_of("\x93NUMPY\1")));
}

TEST(Npy, HeaderThatNumpyWrites) {
    const Bytes header = npy_header_of({2, 5, 4});
    const std::string words = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 5, 4), }";
    std::string expected("\x93NUMPY\1\0\x76\0", 10);
    expected += words + std::string(118 - words.size() - 1, ' ') + "\n";
    EXPECT_EQ(header, bytes_of(expected));
    EXPECT_EQ(npy_header_bytes("a.npy", header), header.size());
}

TEST(Npy, WordsInAnyOrderAndLayout) {
    const CaseHeader header =
        parse_npy_header("a.npy", header_with("{'shape':(7,3 , 2,1,) , 'fortran_order' : False,'descr':'<f4'}"));
    EXPECT_EQ(header.problem.batches, 7);
    EXPECT_EQ(header.problem.queries, 2);
    EXPECT_EQ(header.problem.dim, 1);
}

TEST(Npy, RefusesOtherArrays) {
    const std::string shape = "(2, 3, 5, 4)";
    EXPECT_EQ(said_of(words_of("'<f8'", "False", shape)), bad("with elements '<f8', need '<f4': array.astype('<f4')"));
    EXPECT_EQ(said_of(words_of("'>f4'", "False", shape)), bad("with elements '>f4', need '<f4': array.astype('<f4')"));
    EXPECT_EQ(said_of(words_of("'<f4'", "True", shape)),
              bad("with fortran_order True, need False: numpy.ascontiguousarray(array)"));
    for (const std::string other : {"(2, 4, 5, 4)", "(3, 5, 4)", "(2, 3, 0, 4)", "()", "(2, 3, 5, 4, 1)", "(,)", "12",
                                    "(2, 3, 5, -4)", "(2, 3, 5, 2147483648)", "(2, 3, 5, 4x)"})
        EXPECT_EQ(said_of(words_of("'<f4'", "False", other)),
                  bad("of shape " + other + ", need (B, 3, N, d): Q, K, V of each batch"));
}

TEST(Npy, OutputsOfAnotherShape) {
    const auto said = [](const std::string& shape) {
        return failure_of([&] {
            require_npy_like("a.npy", header_with(words_of("'<f4'", "False", shape)), npy_header_of({2, 5, 4}));
        });
    };
    EXPECT_NO_THROW(
        require_npy_like("a.npy", header_with(words_of("'<f4'", "False", "(2,5,4)")), npy_header_of({2, 5, 4})));
    for (const std::string other : {"(2, 5, 5)", "(2, 5)", "(2, 5, 4, 1)", "(40,)", "12"})
        EXPECT_EQ(said(other), bad("of shape " + other + ", need (2, 5, 4)"));
}

TEST(Npy, ALongHeader) {
    std::string words = words_of("'<f4'", "False", "(2, 3, 5, 4)");
    words.resize(2 * 256 + 64 - 10, ' ');
    const Bytes header = header_with(words);
    EXPECT_EQ(npy_header_bytes("a.npy", header), header.size());
    EXPECT_EQ(parse_npy_header("a.npy", header).bytes, header.size());
}

// NumPy also refuses the first header, and headers with an unknown key.
TEST(Npy, RefusesADictionaryThatIsNotClosed) {
    const std::string good = words_of("'<f4'", "False", "(2, 3, 5, 4)");
    const std::string open = good.substr(0, good.find('}'));
    for (const std::string& words :
         {open, open + "\n", good.substr(0, good.find(", }")), good.substr(0, good.find(')'))})
        EXPECT_EQ(said_of(words), bad("whose header has no closing brace")) << words;
    EXPECT_EQ(said_of(good + "x"), bad("whose header goes on after its closing brace"));
    EXPECT_EQ(said_of(open + "x}"), bad("whose header has x} where a key should be"));
    EXPECT_EQ(said_of(open + "'other': 1}"), bad("whose header has 'other': 1} where a key should be"));
}

// NumPy takes the last value.
TEST(Npy, RefusesAKeyThatIsThereTwice) {
    const std::string good = words_of("'<f4'", "False", "(2, 3, 5, 4)");
    for (const std::string entry : {"'shape': (2, 3, 5, 4)", "\"shape\": (9,)"})
        EXPECT_EQ(said_of(good.substr(0, good.find('}')) + entry + "}"), bad("whose header has 'shape' twice"));
    EXPECT_EQ(said_of("{'descr': '<f8', " + good.substr(1)), bad("whose header has 'descr' twice"));
}

TEST(Npy, ElementsOfAnOutput) {
    const Bytes narrow = npy_header_of({2, 5}, Element::fp16);
    EXPECT_NO_THROW(require_npy_like("a.npy", narrow, narrow));
    EXPECT_EQ(failure_of([&] {
                  require_npy_like("a.npy", npy_header_of({2, 5}), narrow);
              }),
              bad("with elements '<f4', need '<f2': array.astype('<f2')"));
}

} // namespace
} // namespace hw4
