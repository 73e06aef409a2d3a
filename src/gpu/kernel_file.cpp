#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "src/gpu/engine.h"

namespace hw4::gpu {
namespace {

constexpr const char* kSymbol = "hw4_kernel";
constexpr size_t kMostLetters = 31; // of a name
constexpr uint32_t kKnown = HW4_KNOWS_HEADS | HW4_KNOWS_CAUSAL;

[[noreturn]] void bad_file(const std::string& path, const std::string& what) {
    throw Error(ExitCode::bad_data, path + ": " + what + "; src/gpu/hw4_kernel.h says what a kernel file is");
}

std::string last_dl_error() {
    const char* const said = ::dlerror(); // NOLINT(concurrency-mt-unsafe): there are no other threads yet
    return said == nullptr ? "no reason given" : said;
}

// The library is never unloaded. Without a '/', dlopen() would search the system's libraries.
void* loaded(const std::string& path) {
    const std::string place = path.find('/') == std::string::npos ? "./" + path : path;
    return ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

bool is_name(const std::string& name) {
    return !name.empty() && name.size() <= kMostLetters && std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return c < 0x80 && (std::isalnum(c) != 0 || c == '_');
    });
}

void check(const std::string& path, const Hw4Kernel& kernel) {
    if (kernel.abi != HW4_KERNEL_ABI)
        bad_file(path, "is of version " + std::to_string(kernel.abi) + " of kernel files, this hw4 takes version " +
                           std::to_string(HW4_KERNEL_ABI));
    if (kernel.bytes != sizeof(Hw4Kernel))
        bad_file(path, "has a struct of " + std::to_string(kernel.bytes) + " bytes, need " +
                           std::to_string(sizeof(Hw4Kernel)));
    const std::string name = kernel.name == nullptr ? "" : kernel.name;
    if (!is_name(name))
        bad_file(path, "names its kernel '" + name + "', need 1 to " + std::to_string(kMostLetters) +
                           " letters, digits and '_'");
    if (kernel.most_dim < 1) bad_file(path, "takes d up to " + std::to_string(kernel.most_dim) + ", need at least 1");
    if ((kernel.knows & ~kKnown) != 0)
        bad_file(path, "knows what this hw4 does not, flags " + std::to_string(kernel.knows));
    if (kernel.launch == nullptr) bad_file(path, "has no launch");
}

} // namespace

const Hw4Kernel& load_kernel_file(const std::string& path) {
    if (::access(path.c_str(), R_OK) != 0) throw Error(ExitCode::no_input, path + ": " + with_errno("cannot open"));
    void* const library = loaded(path);
    if (library == nullptr) bad_file(path, "cannot be loaded: " + last_dl_error());
    const void* const symbol = ::dlsym(library, kSymbol);
    if (symbol == nullptr) bad_file(path, "has no symbol " + std::string(kSymbol));
    const auto& kernel = *static_cast<const Hw4Kernel*>(symbol);
    check(path, kernel);
    return kernel;
}

} // namespace hw4::gpu
