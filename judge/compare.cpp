// compare: compares two outputs of one case value by value where their bytes differ; or one output with float64.
//
//     compare [--atol X] [--rtol Y] INPUT EXPECTED GOT
//     compare --exact TYPE --atol X [--rtol Y] INPUT GOT
//
// One of them may be "-", standard input.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "src/base/command_line.h"
#include "src/base/error.h"
#include "src/base/help_text.h"
#include "src/base/parallel.h"
#include "src/base/standard_streams.h"
#include "src/base/version.h"
#include "src/io/byte_source.h"
#include "src/io/case_file.h"
#include "src/io/file_rows.h"
#include "src/io/gzip.h"
#include "src/io/npy.h"
#include "src/problem/exact_attention.h"
#include "src/problem/words.h"

namespace hw4 {
namespace {

constexpr size_t kBlockValues = size_t{1} << 18; // 1 MiB: stays in the cache between read() and memcmp()

constexpr size_t kFirstNpyBytes = 10; // hold the length of a .npy header

constexpr int kEqual = 0;
constexpr int kDifferent = 1;
constexpr int kCannotCompare = 2;

// ---- Attention and its gradients in float64, from a case's numbers rounded to a type: the reference for contracts
// that have a bound instead of bytes.

// Runs the work for each index, on all processors.
template <class Work>
void each(int64_t count, const Work& work) {
    in_pieces(static_cast<size_t>(count), 1, [&](size_t i, size_t) { work(static_cast<int64_t>(i)); });
}

void store(const Doubles& row, float* to) {
    for (const double number : row) *to++ = static_cast<float>(number);
}

// O of one batch, or dQ, dK and dV; its operands follow each other. Rounded to float32 only at the end, which is
// thousands of times finer than the compared outputs. Uses all processors. `keys`: how many of the batch's rows of K
// and V it attends to.
std::vector<float> exact_output(const Problem& problem, const std::vector<float>& batch, int64_t keys) {
    const ExactAttention exact(problem, batch.data(), keys);
    std::vector<float> out(problem.batch_output_floats());
    const auto row_of = [&](size_t operand, int64_t row) { return exact.output_row(out.data(), operand, row); };
    if (problem.operation == &kForward) {
        each(exact.query_rows(), [&](int64_t row) { store(exact.output(row), row_of(0, row)); });
        return out;
    }
    std::vector<ExactAttention::RowFacts> facts(static_cast<size_t>(exact.query_rows()));
    each(exact.query_rows(),
         [&](int64_t row) { store(exact.query_gradient(row, facts[static_cast<size_t>(row)]), row_of(0, row)); });
    each(exact.key_rows(), [&](int64_t row) {
        const auto [dK, dV] = exact.key_gradients(row, facts.data() + row / problem.keys * exact.rows_of_group());
        store(dK, row_of(1, row));
        store(dV, row_of(2, row));
    });
    return out;
}

// The outputs of all batches in order; each is computed when its values are read.
class ExactValues {
public:
    ExactValues(CaseReader& input, Element element) : input_(input), element_(element) {}

    void read(float* to, size_t count) {
        while (count > 0) {
            if (taken_ == computed_.size()) compute_next();
            const size_t step = std::min(count, computed_.size() - taken_);
            to = std::copy_n(computed_.data() + taken_, step, to);
            taken_ += step;
            count -= step;
        }
    }

private:
    void compute_next() {
        const Problem& problem = input_.problem();
        std::vector<float> batch(problem.batch_input_floats());
        const int64_t keys = input_.lengths() == nullptr ? problem.keys : input_.lengths()[batch_];
        input_.read_rows(batch_++ * problem.batch_input_rows(), problem.batch_input_rows(), batch.data());
        round_all(element_, batch.data(), batch.size(), batch.data());
        Problem one = problem.of_batches(1);
        one.element = Element::float32;
        const std::vector<float> rows = exact_output(one, batch, keys);
        computed_.clear();
        each_in_file(one, one.operation->outputs, 0, one.output_rows(), rows.data(),
                     [&](uint64_t, const void* numbers, size_t bytes) {
                         const auto* const values = static_cast<const float*>(numbers);
                         computed_.insert(computed_.end(), values, values + bytes / sizeof(float));
                     });
        taken_ = 0;
    }

    CaseReader& input_;
    Element element_;
    int64_t batch_ = 0; // the next batch
    std::vector<float> computed_;
    size_t taken_ = 0; // values read from it, in the file's order
};

// ---- The comparison

std::string help_text() {
    return R"(usage: compare [--atol X] [--rtol Y] [--backward] INPUT EXPECTED GOT
       compare --exact TYPE --atol X [--rtol Y] INPUT GOT

)" + laid_out(R"(Compares two outputs of the case INPUT (plain or gzip; its values are not read). The bytes decide.
What differs is counted, and the first difference and the largest one are shown with their places; batch, row and
column count from 0. One of the three may be -, standard input; all may be pipes. Outputs named .gz, .npy or .npy.gz
are read as hw4 writes them.

  --atol X  |expected - got| <= X decides instead, for every value; 5e-3 is the course's rule. Equal bytes pass; a NaN
    or an infinity passes only if it is the same on both sides. For gradients X,Y,Z may be for dQ, dK and dV
  --rtol Y  X + Y |expected| instead of X, which is 0 where only --rtol is given
  --exact float32|bf16|fp16  compare with what float64 gives for the numbers of INPUT rounded to this type: for
    contracts with a bound instead of bytes; with --atol or --rtol
  --backward  the outputs are dQ, dK, dV, and INPUT does not ask for them itself
  -h, --help, -V, --version

exit codes: 0 equal (or within X), 1 different, 2 could not compare
)");
}

struct CannotCompare : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Tolerance {
    std::vector<double> atol = {0.0}; // for all outputs, or one for each
    double rtol = 0.0;

    bool of_each() const { return atol.size() > 1; }

    // An infinity allows no difference: multiplied by rtol it would allow every one.
    double around(float expected, size_t output) const {
        if (!std::isfinite(expected)) return 0.0;
        return atol[of_each() ? output : 0] + rtol * std::fabs(static_cast<double>(expected));
    }
};

struct Arguments {
    std::optional<Tolerance> tolerance;   // none: the bytes decide
    const Operation* operation = nullptr; // null: from INPUT
    std::optional<Element> exact;         // the input is rounded to this type; none: an expected output is given
    std::string input;
    std::string expected;
    std::string got;
};

// An output in the form that its name says. A plain file's size is known; a pipe's or gzip's only after reading.
class OutputStream {
public:
    OutputStream(const std::string& name, const Problem& problem)
        : OutputStream(shown_input(name), open_input(name), form_of_output(name, problem), problem.element) {}

    // Called before anything is read. False where the size is known and different.
    bool may_have(uint64_t bytes) const { return !size_ || *size_ == bytes; }

    // Whether it has exactly this size. Where the size is unknown, reads up to it, and one byte more.
    bool has(uint64_t bytes) {
        if (size_) return *size_ == bytes;
        std::array<unsigned char, 4096> rest{};
        while (!ended_ && taken_ <= bytes) (void)take(rest.data(), std::min<uint64_t>(rest.size(), bytes + 1 - taken_));
        return taken_ == bytes;
    }

    // Call after has().
    std::string size_in_words(uint64_t bytes) const {
        if (!size_ && taken_ > bytes) return "more than " + std::to_string(bytes);
        return std::to_string(size_.value_or(taken_));
    }

    // Reads all the values, or returns false where the output ends before.
    bool read(float* to, size_t count) {
        const size_t bytes = count * bytes_of(element_);
        if (take(reinterpret_cast<char*>(to + count) - bytes, bytes) < bytes) return false;
        widen_at_end(element_, to, count);
        return true;
    }

private:
    OutputStream(std::string path, OpenFile file, const OutputForm& form, Element element)
        : path_(std::move(path)), element_(element) {
        if (S_ISREG(file.status.st_mode) && !form.gzip) size_ = stored_bytes(file);
        source_ = std::make_unique<PlainSource>(path_, std::move(file));
        if (form.gzip) source_ = std::make_unique<GzipSource>(path_, std::move(source_), Bytes());
        if (!form.head.empty()) pass_npy_header(form.head);
    }

    // Some versions of numpy.save() leave more padding in the header than hw4 does.
    void pass_npy_header(const Bytes& like) {
        Bytes header(kFirstNpyBytes);
        header.resize(source_->read(header.data(), header.size()));
        if (!is_npy(header)) throw CannotCompare(path_ + ": is no NumPy .npy file");
        header.resize(npy_header_bytes(path_, header));
        const size_t rest = header.size() - kFirstNpyBytes;
        if (source_->read(header.data() + kFirstNpyBytes, rest) < rest)
            throw CannotCompare(path_ + ": ends in the header of a NumPy .npy file");
        require_npy_like(path_, header, like);
        if (size_) *size_ -= header.size();
    }

    size_t take(void* to, size_t size) {
        const size_t got = source_->read(to, size);
        ended_ = got < size;
        if (ended_ && size_) throw CannotCompare(path_ + ": became shorter while it was read");
        taken_ += got;
        return got;
    }

    std::string path_;
    Element element_;
    std::unique_ptr<ByteSource> source_;
    std::optional<uint64_t> size_; // without the header
    uint64_t taken_ = 0;
    bool ended_ = false;
};

struct Difference {
    size_t index = 0;
    size_t output = 0; // O, or dQ, dK, dV
    float expected = 0.0f;
    float got = 0.0f;
    double absolute = 0.0;

    bool has_nan() const { return std::isnan(expected) || std::isnan(got); }
};

// Results of a comparison. `breaking` counts the differences that the rule does not allow.
struct Findings {
    size_t differing = 0;
    size_t breaking = 0;
    size_t expected_nan = 0;
    size_t got_nan = 0;
    std::optional<Difference> first_breaking;
    std::optional<Difference> largest[kMostOutputs]; // for each output
};

// The number of values in all outputs.
size_t values_of(const Problem& problem) {
    return problem.file_bytes(problem.operation->outputs) / bytes_of(problem.element);
}

size_t output_of(size_t index, const Problem& problem) {
    return number_place(problem, problem.operation->outputs, static_cast<int64_t>(index)).operand;
}

bool breaks_rule(const Difference& difference, const std::optional<Tolerance>& tolerance) {
    return !tolerance || !(difference.absolute <= tolerance->around(difference.expected, difference.output)); // NaN
}

void note_difference(Findings& findings, const Difference& difference, const std::optional<Tolerance>& tolerance) {
    ++findings.differing;
    if (std::isnan(difference.expected)) ++findings.expected_nan;
    if (std::isnan(difference.got)) ++findings.got_nan;
    std::optional<Difference>& largest = findings.largest[difference.output];
    if (!difference.has_nan() && (!largest || difference.absolute > largest->absolute)) largest = difference;
    if (!breaks_rule(difference, tolerance)) return;
    ++findings.breaking;
    if (!findings.first_breaking) findings.first_breaking = difference;
}

void compare_block(Findings& findings, const std::vector<float>& expected, const std::vector<float>& got, size_t first,
                   size_t count, const Problem& problem, const std::optional<Tolerance>& tolerance) {
    for (size_t i = 0; i < count; ++i) {
        if (bits_of(expected[i]) == bits_of(got[i])) continue;
        const double absolute = std::fabs(static_cast<double>(expected[i]) - static_cast<double>(got[i]));
        note_difference(findings, {first + i, output_of(first + i, problem), expected[i], got[i], absolute}, tolerance);
    }
}

// Returns nothing where an output ended too early. read_expected(to, count) returns false at the end.
template <class ReadExpected>
std::optional<Findings> compare_values(const ReadExpected& read_expected, OutputStream& got, const Problem& problem,
                                       const std::optional<Tolerance>& tolerance) {
    Findings findings;
    const size_t total = values_of(problem);
    const size_t block = std::min(kBlockValues, total);
    std::vector<float> expected_block(block);
    std::vector<float> got_block(block);
    for (size_t first = 0; first < total; first += block) {
        const size_t count = std::min(block, total - first);
        if (!read_expected(expected_block.data(), count) || !got.read(got_block.data(), count)) return std::nullopt;
        if (std::memcmp(expected_block.data(), got_block.data(), count * sizeof(float)) == 0) continue;
        compare_block(findings, expected_block, got_block, first, count, problem, tolerance);
    }
    return findings;
}

// The number of steps between two numbers among all numbers of the type; +0 and -0 are the same.
int64_t ulp_distance(float a, float b, Element element) {
    const auto rank = [&](float value) {
        const auto magnitude = static_cast<int64_t>(bits_of(element, std::fabs(value)));
        return std::signbit(value) ? -magnitude : magnitude;
    };
    return std::abs(rank(a) - rank(b));
}

std::string place_of_value(size_t index, const Problem& problem) {
    const auto number = static_cast<int64_t>(index);
    const List<Operand>& outputs = problem.operation->outputs;
    return place_of(problem, outputs, number) + ", column " +
           std::to_string(number_place(problem, outputs, number).column);
}

std::string rule_name(const std::optional<Tolerance>& tolerance) {
    if (!tolerance) return "bytes";
    const auto number = [](double x) {
        std::array<char, 32> text{};
        std::snprintf(text.data(), text.size(), "%g", x);
        return std::string(text.data());
    };
    std::string rule = "|expected - got| <= " + number(tolerance->atol[0]);
    for (size_t i = 1; i < tolerance->atol.size(); ++i) rule += "," + number(tolerance->atol[i]);
    return tolerance->rtol == 0.0 ? rule : rule + " + " + number(tolerance->rtol) + " |expected|";
}

void print_first(const Difference& difference, const Problem& problem) {
    const std::string distance =
        difference.has_nan()
            ? "no ulp distance to NaN"
            : std::to_string(ulp_distance(difference.expected, difference.got, problem.element)) + " ulp apart";
    const size_t bytes = bytes_of(problem.element);
    const int digits = static_cast<int>(2 * bytes);
    std::printf("first: %s: expected %.9g (0x%0*x), got %.9g (0x%0*x), %s, byte offset %zu\n",
                place_of_value(difference.index, problem).c_str(), static_cast<double>(difference.expected), digits,
                bits_of(problem.element, difference.expected), static_cast<double>(difference.got), digits,
                bits_of(problem.element, difference.got), distance.c_str(), difference.index * bytes);
}

// The expected value is not a number of the output's type.
void print_first_inexact(const Difference& difference, const Problem& problem) {
    std::printf("first: %s: expected %.9g, got %.9g, byte offset %zu\n",
                place_of_value(difference.index, problem).c_str(), static_cast<double>(difference.expected),
                static_cast<double>(difference.got), difference.index * bytes_of(problem.element));
}

void print_largest(const Difference& difference, const Problem& problem) {
    std::printf("largest absolute difference: %.9g at %s: expected %.9g, got %.9g\n", difference.absolute,
                place_of_value(difference.index, problem).c_str(), static_cast<double>(difference.expected),
                static_cast<double>(difference.got));
}

// Prints the largest difference of all outputs, or of each where each has its own tolerance.
void print_largest_of(const Findings& findings, bool of_each, const Problem& problem) {
    const Difference* largest = nullptr;
    for (const std::optional<Difference>& of_output : findings.largest) {
        if (of_output && of_each) print_largest(*of_output, problem);
        if (of_output && (largest == nullptr || of_output->absolute > largest->absolute)) largest = &*of_output;
    }
    if (largest != nullptr && !of_each) print_largest(*largest, problem);
}

void print_findings(const Findings& findings, const Arguments& arguments, const Problem& problem, size_t total) {
    const std::string rule = rule_name(arguments.tolerance);
    if (findings.breaking > 0)
        std::printf("different (rule: %s): %zu of %zu values", rule.c_str(), findings.breaking, total);
    else
        std::printf("within (rule: %s): all of %zu values", rule.c_str(), total);
    if (arguments.tolerance && !arguments.exact) std::printf("; the bytes of %zu differ", findings.differing);
    std::printf("\n");
    if (findings.first_breaking && arguments.exact) print_first_inexact(*findings.first_breaking, problem);
    if (findings.first_breaking && !arguments.exact) print_first(*findings.first_breaking, problem);
    print_largest_of(findings, arguments.tolerance && arguments.tolerance->of_each(), problem);
    if (findings.expected_nan + findings.got_nan > 0)
        std::printf("NaN among the differing values: %zu expected, %zu got; not in the largest difference\n",
                    findings.expected_nan, findings.got_nan);
}

// `expected` is null where no output is compared with.
bool sizes_match(const Problem& problem, OutputStream* expected, OutputStream& got) {
    const uint64_t needed = problem.file_bytes(problem.operation->outputs);
    const bool expected_matches = expected == nullptr || expected->has(needed);
    const bool got_matches = got.has(needed);
    if (expected_matches && got_matches) return true;
    const auto [names, sizes] = sizes_of(problem);
    const std::string of_expected =
        expected == nullptr ? "" : "expected has " + expected->size_in_words(needed) + " bytes, ";
    std::printf("different sizes: %sgot has %s, and %s = %s needs %s\n", of_expected.c_str(),
                got.size_in_words(needed).c_str(), names.c_str(), sizes.c_str(), std::to_string(needed).c_str());
    return false;
}

int compare(const Arguments& arguments) {
    CaseReader input(arguments.input, arguments.operation);
    const Problem problem = input.problem();
    const size_t outputs = problem.operation->outputs.size();
    if (arguments.tolerance && arguments.tolerance->of_each() && arguments.tolerance->atol.size() != outputs)
        throw CannotCompare(input.path() + ": asks for " + problem.operation->name + ", --atol has " +
                            std::to_string(arguments.tolerance->atol.size()) + " numbers, need 1" +
                            (outputs > 1 ? " or " + std::to_string(outputs) : ""));
    std::optional<OutputStream> expected;
    if (!arguments.exact) expected.emplace(arguments.expected, problem);
    OutputStream got(arguments.got, problem);
    const size_t total = values_of(problem);
    const uint64_t bytes = problem.file_bytes(problem.operation->outputs);
    std::optional<Findings> findings;
    if (!expected && got.may_have(bytes)) {
        ExactValues exact(input, *arguments.exact);
        const auto read = [&](float* to, size_t count) {
            exact.read(to, count);
            return true;
        };
        findings = compare_values(read, got, problem, arguments.tolerance);
        if (findings) input.expect_end();
    }
    if (expected && expected->may_have(bytes) && got.may_have(bytes)) {
        const auto read = [&](float* to, size_t count) { return expected->read(to, count); };
        findings = compare_values(read, got, problem, arguments.tolerance);
    }
    if (!sizes_match(problem, expected ? &*expected : nullptr, got) || !findings) return kDifferent;
    if (findings->differing == 0)
        std::printf("equal: %zu values, %zu bytes\n", total, problem.file_bytes(problem.operation->outputs));
    else
        print_findings(*findings, arguments, problem, total);
    return findings->breaking == 0 ? kEqual : kDifferent;
}

double parse_tolerance(const std::string& name, const std::string& text) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || !std::isfinite(value) || value < 0.0)
        throw CannotCompare(name + " '" + text + "': need a number from 0; see --help");
    return value;
}

std::vector<double> parse_atol(const std::string& text) {
    std::vector<double> list;
    for (const std::string& word : split(text, ',')) list.push_back(parse_tolerance("--atol", word));
    return list;
}

Element parse_element(const std::string& text) {
    for (const Element element : kEveryElement)
        if (text == name_of(element)) return element;
    throw CannotCompare("--exact '" + text + "': need float32, bf16 or fp16; see --help");
}

[[noreturn]] void refuse(const std::string& what) { throw CannotCompare(what + "; see --help"); }

// Returns nothing after --help.
std::optional<Arguments> parse_arguments(int argc, char** argv) {
    Arguments arguments;
    const auto tolerance = [&arguments]() -> Tolerance& {
        return arguments.tolerance ? *arguments.tolerance : arguments.tolerance.emplace();
    };
    constexpr int kValue = required_argument;
    const Action asked =
        take_options(argc, argv,
                     {{"atol", kValue, [&](const char* value) { tolerance().atol = parse_atol(value); }},
                      {"rtol", kValue, [&](const char* value) { tolerance().rtol = parse_tolerance("--rtol", value); }},
                      {"backward", no_argument, [&](const char*) { arguments.operation = &kBackward; }},
                      {"exact", kValue, [&](const char* value) { arguments.exact = parse_element(value); }}},
                     refuse);
    if (asked == Action::help) std::fputs(help_text().c_str(), stdout);
    if (asked == Action::version) std::printf("compare of hw4 %s\n", kVersion);
    if (asked != Action::run) return std::nullopt;
    if (arguments.exact && !arguments.tolerance)
        throw CannotCompare("--exact needs --atol or --rtol: what float64 gives is no number of the output's type");
    if (argc - optind != (arguments.exact ? 2 : 3))
        throw CannotCompare(arguments.exact ? "need INPUT and GOT; see --help"
                                            : "need INPUT, EXPECTED and GOT; see --help");
    arguments.input = argv[optind];
    if (!arguments.exact) arguments.expected = argv[optind + 1];
    arguments.got = argv[argc - 1];
    if (std::count_if(argv + optind, argv + argc, is_standard_stream) > 1)
        throw CannotCompare("only one of INPUT, EXPECTED and GOT can be '-', standard input; see --help");
    return arguments;
}

int run(int argc, char** argv) {
    const std::optional<Arguments> arguments = parse_arguments(argc, argv);
    const int verdict = arguments ? compare(*arguments) : kEqual;
    flush_standard_output();
    return verdict;
}

} // namespace
} // namespace hw4

int main(int argc, char** argv) {
    hw4::occupy_closed_streams();
    try {
        return hw4::run(argc, argv);
    } catch (const std::exception& error) { // also bad_alloc: no failure may look like a verdict
        std::fprintf(stderr, "compare: %s\n", hw4::one_line(error.what()).c_str());
        return hw4::kCannotCompare;
    }
}
