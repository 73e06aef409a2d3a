#include "src/io/npy.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string_view>

#include "src/base/error.h"
#include "src/base/numbers.h"

namespace hw4 {

namespace {

constexpr size_t kFixedBytes = 10; // magic, version, length of the words
constexpr size_t kAlignment = 64;  // of the numbers
constexpr size_t kMostShown = 40;  // letters of a value, in a message
constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::string_view kKeys[] = {"descr", "fortran_order", "shape"};

// NumPy has no bf16.
std::string quoted(Element element) { return element == Element::float32 ? "'<f4'" : "'<f2'"; }

[[noreturn]] void bad_npy(const std::string& path, const std::string& what) {
    throw Error(ExitCode::bad_data, path + ": is a NumPy .npy file " + what);
}

// Shortens the value, which may have 64 KiB.
std::string shown(const std::optional<std::string>& value) {
    if (!value) return "nothing";
    return value->size() <= kMostShown ? *value : value->substr(0, kMostShown) + "...";
}

// The header's text is a Python dictionary of three entries, in any order.
class Words {
public:
    Words(const std::string& path, const Bytes& header)
        : path_(path), text_(header.begin() + kFixedBytes, header.end()) {
        size_t at = past_blanks(0);
        if (text_[at] != '{') refuse("is not {'descr': ..., 'fortran_order': ..., 'shape': ...}");
        for (at = past_blanks(at + 1); text_[at] != '}'; at = past_blanks(text_[at] == ',' ? at + 1 : at))
            at = take_entry(at);
        if (past_blanks(at + 1) != text_.size()) refuse("goes on after its closing brace");
    }

    // Returns nothing where the key is missing.
    std::optional<std::string> value_of(const std::string& key) const {
        const auto entry = entries_.find(key);
        return entry == entries_.end() ? std::nullopt : std::optional(entry->second);
    }

private:
    [[noreturn]] void refuse(const std::string& how) const { bad_npy(path_, "whose header " + how); }

    // The byte after the last one is zero.
    size_t past_blanks(size_t at) const { return std::min(text_.find_first_not_of(" \n", at), text_.size()); }

    // Parses 'key': value, up to the comma or brace after it.
    size_t take_entry(size_t at) {
        if (at == text_.size()) refuse("has no closing brace");
        const char quote = text_[at];
        const size_t key_end = std::min(text_.find(quote, at + 1), text_.size());
        const std::string key = text_.substr(at + 1, key_end - at - 1);
        const size_t colon = past_blanks(key_end + 1);
        const bool known = std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
        if ((quote != '\'' && quote != '"') || !known || text_[colon] != ':')
            refuse("has " + shown(text_.substr(at)) + " where a key should be");
        const size_t begin = past_blanks(colon + 1);
        const size_t end = end_of_value(begin);
        std::string value = text_.substr(begin, end - begin);
        while (!value.empty() && value.back() == ' ') value.pop_back();
        if (!entries_.emplace(key, value).second) refuse("has '" + key + "' twice");
        return end;
    }

    // Skips commas inside a tuple or list.
    size_t end_of_value(size_t at) const {
        int open = 0;
        for (; at < text_.size() && (open > 0 || (text_[at] != ',' && text_[at] != '}')); ++at)
            open += text_[at] == '(' || text_[at] == '[' ? 1 : text_[at] == ')' || text_[at] == ']' ? -1 : 0;
        if (at == text_.size()) refuse("has no closing brace");
        return at;
    }

    const std::string& path_;
    std::string text_;
    std::map<std::string, std::string> entries_;
};

// The sizes in "(2, 3, 5, 4)"; nothing where a size is not an integer that a header could have.
std::optional<Shape> sizes_in(const std::string& tuple, int64_t most = std::numeric_limits<int32_t>::max()) {
    Shape shape;
    std::string number;
    for (const char c : tuple.substr(1)) {
        if (c == ' ') continue;
        if (c != ',' && c != ')') {
            number += c;
            continue;
        }
        if (number.empty() && c == ')' && !shape.empty()) break; // (2,)
        const auto size = whole_number(number, 0, most);
        if (!size) return std::nullopt;
        shape.push_back(*size);
        number.clear();
    }
    return shape;
}

std::string in_words(const Shape& shape) {
    std::string words;
    for (const int64_t size : shape) words += (words.empty() ? "(" : ", ") + std::to_string(size);
    return words + (shape.size() == 1 ? ",)" : ")");
}

struct Array {
    std::optional<std::string> words; // the shape's text
    std::optional<Shape> sizes;       // none where the text is not a shape
    Element element = Element::float32;

    bool has(std::initializer_list<size_t> axes) const {
        return sizes && std::count(axes.begin(), axes.end(), sizes->size()) > 0 &&
               *std::min_element(sizes->begin(), sizes->end()) > 0;
    }
};

// An array with numbers that can be read directly. Throws Error (bad_data) for any other.
Array array_in(const std::string& path, const Bytes& header, const std::vector<Element>& elements) {
    const Words words(path, header);
    const auto name = words.value_of("descr");
    const auto element =
        std::find_if(elements.begin(), elements.end(), [&](Element known) { return name == quoted(known); });
    if (element == elements.end())
        bad_npy(path, "with elements " + shown(name) + ", need " + quoted(elements.front()) +
                          (elements.size() > 1 ? " or " + quoted(elements.back()) : "") + ": array.astype(" +
                          quoted(elements.front()) + ")");
    const auto order = words.value_of("fortran_order");
    if (order != "False")
        bad_npy(path, "with fortran_order " + shown(order) + ", need False: numpy.ascontiguousarray(array)");
    const auto tuple = words.value_of("shape");
    const bool is_tuple = tuple && !tuple->empty() && tuple->front() == '(';
    return {tuple, is_tuple ? sizes_in(*tuple) : std::nullopt, *element};
}

} // namespace

bool is_npy(const Bytes& start) {
    return start.size() >= kFixedBytes && std::equal(kMagic.begin(), kMagic.end(), start.begin(),
                                                     [](char a, auto b) { return static_cast<unsigned char>(a) == b; });
}

size_t npy_header_bytes(const std::string& path, const Bytes& start) {
    if (start[6] != 1 || start[7] != 0)
        bad_npy(path, "of version " + std::to_string(start[6]) + "." + std::to_string(start[7]) + ", need 1.0");
    return kFixedBytes + start[8] + size_t{256} * start[9];
}

CaseHeader parse_npy_header(const std::string& path, const Bytes& header) {
    const Array array = array_in(path, header, {Element::float32});
    if (!array.has({4}) || (*array.sizes)[1] != 3)
        bad_npy(path, "of shape " + shown(array.words) + ", need (B, 3, N, d): Q, K, V of each batch");
    const Shape& shape = *array.sizes;
    return {Problem(shape[0], shape[2], shape[3]), header.size(), HeaderForm::npy};
}

CaseHeader parse_npy_headers(const std::vector<NpyHeader>& arrays) {
    std::vector<Shape> shapes;
    std::vector<Element> elements = {Element::float32, Element::fp16};
    const auto refuse = [&](const std::string& need) {
        const NpyHeader& array = arrays[shapes.size() - 1];
        bad_npy(array.path, "of shape " + in_words(shapes.back()) + ", need " + need);
    };
    const auto take_next = [&] {
        const NpyHeader& next = arrays[shapes.size()];
        const Array array = array_in(next.path, next.header, elements);
        if (!array.has({3, 4}))
            bad_npy(next.path, "of shape " + shown(array.words) + ", need (B, heads, N, d), or (B, N, d) of one head");
        elements = {array.element}; // all other arrays must have the same
        return shapes.emplace_back(*array.sizes);
    };
    const auto take_like = [&](const Shape& shape, const std::string& of) {
        if (take_next() != shape) refuse(in_words(shape) + ", that of " + of);
    };
    const Shape q = take_next();
    const Shape k = take_next();
    if (k.size() != q.size() || k.front() != q.front() || k.back() != q.back())
        refuse("(" + std::to_string(q.front()) + (q.size() == 4 ? ", heads" : "") + ", N, " + std::to_string(q.back()) +
               ") with B and d of " + arrays[0].path);
    const Shape v = take_next();
    const auto with_columns_of_v = [&](Shape shape) {
        shape.back() = v.back();
        return shape;
    };
    if (v != with_columns_of_v(k)) refuse(in_words(k) + ", that of " + arrays[1].path + ", or one with another d");
    if (arrays.size() == 4) take_like(with_columns_of_v(q), arrays[0].path + " with the d of V");
    Problem problem = Problem(q.front(), q[q.size() - 2], q.back()).of_columns(q.back(), v.back());
    problem.keys = k[k.size() - 2];
    problem.element = elements.front();
    problem.operation = arrays.size() == 4 ? &kBackward : &kForward;
    if (q.size() == 4) {
        problem.heads = q[1];
        problem.kv_heads = k[1];
        if (q[1] % k[1] != 0)
            bad_npy(arrays[1].path, "with " + std::to_string(k[1]) + " heads, need a number that divides the " +
                                        std::to_string(q[1]) + " of " + arrays[0].path);
    }
    return {problem, 0, HeaderForm::npy, q.size() == 4};
}

NpyTokens parse_npy_tokens(const std::string& path, const Bytes& header) {
    const Words words(path, header);
    const auto name = words.value_of("descr");
    if (name != "'<u2'" && name != "'<u4'") bad_npy(path, "with elements " + shown(name) + ", need '<u2' or '<u4'");
    const auto tuple = words.value_of("shape");
    const auto sizes =
        tuple && !tuple->empty() && tuple->front() == '(' ? sizes_in(*tuple, int64_t{1} << 48) : std::nullopt;
    if (!sizes || sizes->size() != 1) bad_npy(path, "of shape " + shown(tuple) + ", need (N,): one row of tokens");
    return {name == "'<u2'" ? 2 : 4, sizes->front()};
}

void require_npy_like(const std::string& path, const Bytes& header, const Bytes& like) {
    const Array needed = array_in(path, like, {Element::float32, Element::fp16});
    const Array array = array_in(path, header, {needed.element});
    if (!array.sizes || array.sizes != needed.sizes)
        bad_npy(path, "of shape " + shown(array.words) + ", need " + shown(needed.words));
}

Bytes npy_header_of(const Shape& shape, Element element) {
    std::string words =
        "{'descr': " + quoted(element) + ", 'fortran_order': False, 'shape': " + in_words(shape) + ", }";
    const size_t whole = (kFixedBytes + words.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
    words.append(whole - kFixedBytes - words.size() - 1, ' ');
    words += '\n';
    Bytes header(kMagic.begin(), kMagic.end());
    for (const size_t byte : {size_t{1}, size_t{0}, words.size() % 256, words.size() / 256})
        header.push_back(static_cast<unsigned char>(byte));
    header.insert(header.end(), words.begin(), words.end());
    return header;
}

namespace {

constexpr std::string_view kGzip = ".gz";

bool ends_with(const std::string& name, std::string_view suffix) {
    return name.size() > suffix.size() && name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
}

bool is_npy_name(const std::string& name) { return ends_with(name, ".npy") || ends_with(name, ".npy.gz"); }

OutputForm form_of(const std::string& name, const Shape& shape, Element element = Element::float32) {
    return {ends_with(name, kGzip), is_npy_name(name) ? npy_header_of(shape, element) : Bytes()};
}

Shape operator+(Shape front, const Shape& back) {
    front.insert(front.end(), back.begin(), back.end());
    return front;
}

// (heads, N), without the heads where there is only one, unless the axis is asked for.
Shape shape_of_head(const Problem& problem, const Operand& operand, bool heads_axis) {
    const int64_t heads = problem.heads_of(operand);
    return (heads_axis || heads > 1 ? Shape{heads} : Shape{}) + Shape{problem.head_rows(operand)};
}

} // namespace

OutputForm form_of_output(const std::string& name, const Problem& problem, bool heads_axis, const Operand* only) {
    const List<Operand>& outputs = problem.operation->outputs;
    const Operand& first = only == nullptr ? outputs[0] : *only;
    const auto refuse = [&](const std::string& why) {
        throw Error(ExitCode::usage, name + ": " + why + ", need a name without .npy");
    };
    if (is_npy_name(name) && problem.element == Element::bf16)
        refuse(std::string(first.name) + " has elements of bf16, which NumPy lacks");
    Shape shape = {problem.batches};
    if (only == nullptr && outputs.size() > 1) shape.push_back(static_cast<int64_t>(outputs.size()));
    const Shape head = shape_of_head(problem, first, heads_axis);
    for (const Operand& output : outputs)
        if (is_npy_name(name) && only == nullptr &&
            (shape_of_head(problem, output, heads_axis) != head ||
             problem.columns_of(output) != problem.columns_of(first)))
            refuse(std::string(first.name) + " and " + output.name + " differ in shape and are not one array");
    return form_of(name, shape + head + Shape{problem.columns_of(first)}, problem.element);
}

OutputForm form_of_rows(const std::string& name, const Problem& problem, bool heads_axis) {
    return form_of(name, Shape{problem.batches} + shape_of_head(problem, kForward.outputs[0], heads_axis));
}

} // namespace hw4
