#include "src/gpu/engine.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "src/commands/engine_choice.h"
#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

// A kernel file in C, as hw4_kernel.h is C; no test here launches it.
class KernelFile : public testing::Test {
protected:
    // The struct's fields, in order.
    std::string compiled(const std::string& fields) {
        return library(
            "#include \"src/gpu/hw4_kernel.h\"\nstatic int launch(const Hw4Launch* a) { return a->dim > 0; }\n"
            "const Hw4Kernel hw4_kernel = {" +
            fields + "};\nint (*const used)(const Hw4Launch*) = launch;\n");
    }

    // Each library gets its own name: a loaded name is not loaded again.
    std::string library(const std::string& text) {
        const std::string source = folder_ / "kernel.c";
        const std::string path = folder_ / ("kernel" + std::to_string(++made_) + ".so");
        write_file(source, text);
        const std::string command =
            std::string(HW4_HOST_COMPILER) + " -x c -I. -w -shared -fPIC '" + source + "' -o '" + path + "'";
        EXPECT_EQ(std::system(command.c_str()), 0) << command; // NOLINT(cert-env33-c,concurrency-mt-unsafe)
        return path;
    }

    // The error about the file, without its name.
    static std::string said(const std::string& path) {
        const Failure failure = failure_of([&] { (void)gpu::load_kernel_file(path); });
        const std::string end = "; src/gpu/hw4_kernel.h says what a kernel file is";
        EXPECT_EQ(failure.code, ExitCode::bad_data) << path;
        EXPECT_EQ(failure.message.substr(0, path.size() + 2), path + ": ");
        const size_t length = failure.message.size();
        EXPECT_TRUE(length > end.size() && failure.message.substr(length - end.size()) == end) << failure.message;
        return failure.message.substr(path.size() + 2, length - end.size() - path.size() - 2);
    }

    TemporaryFolder folder_;
    int made_ = 0;
};

TEST_F(KernelFile, SaysWhatItTakes) {
    const std::string path =
        compiled("HW4_KERNEL_ABI, sizeof(Hw4Kernel), \"mine_2\", \"an idea\", 96, 80, HW4_KNOWS_CAUSAL, 0, launch");
    const Hw4Kernel kernel = gpu::load_kernel_file(path);
    EXPECT_STREQ(kernel.name, "mine_2");
    EXPECT_STREQ(kernel.idea, "an idea");
    EXPECT_EQ(kernel.most_dim, 96);
    EXPECT_EQ(kernel.least_capability, 80);
    EXPECT_EQ(kernel.knows, HW4_KNOWS_CAUSAL);
    Hw4Launch launch{};
    launch.dim = 1;
    EXPECT_EQ(kernel.launch(&launch), 1);
}

TEST_F(KernelFile, IsALibraryWithTheSymbol) {
    const std::string path = folder_ / "text.so";
    write_file(path, "no library");
    EXPECT_EQ(said(path), "cannot be loaded: " + path + ": file too short");
    EXPECT_EQ(said(library("int another_symbol = 1;\n")), "has no symbol hw4_kernel");
}

TEST_F(KernelFile, HasFieldsThatMakeSense) {
    const std::string head = "HW4_KERNEL_ABI, sizeof(Hw4Kernel), ";
    const std::pair<std::string, std::string> wrong[] = {
        {"HW4_KERNEL_ABI + 1, sizeof(Hw4Kernel), \"mine\", \"\", 64, 75, 0, 0, launch",
         "is of version 2 of kernel files, this hw4 takes version 1"},
        {"HW4_KERNEL_ABI, 8, \"mine\", \"\", 64, 75, 0, 0, launch",
         "has a struct of 8 bytes, need " + std::to_string(sizeof(Hw4Kernel))},
        {head + "\"a kernel\", \"\", 64, 75, 0, 0, launch",
         "names its kernel 'a kernel', need 1 to 31 letters, digits and '_'"},
        {head + "\"mine\", \"\", 0, 75, 0, 0, launch", "takes d up to 0, need at least 1"},
        {head + "\"mine\", \"\", 64, 75, 4, 0, launch", "knows what this hw4 does not, flags 4"},
        {head + "\"mine\", \"\", 64, 75, 0, 0, 0", "has no launch"}};
    for (const auto& [fields, message] : wrong) EXPECT_EQ(said(compiled(fields)), message);
}

TEST(KernelFileOption, NeedsAGpuBuild) {
    Options options;
    load_kernel_file(options);
    options.kernel_file = "none.so";
    EXPECT_EQ(failure_of([&] { load_kernel_file(options); }),
              (Failure{ExitCode::no_gpu, "--kernel-file 'none.so' needs a build with CUDA, and hw4 was built without "
                                         "CUDA"}));
}

} // namespace
} // namespace hw4
