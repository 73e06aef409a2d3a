// differential: compares the sequential references with every kernel of this machine on random cases, byte by byte.
//
//     differential [--seconds S] [--seed X] [--device cpu|gpu|all] [--jobs J]
//     differential --case C [--device cpu|gpu|all]
//
// Case n of seed X has a number C, which determines its problem, its values and how each kernel is called, on every
// machine. A difference is printed with its C. Exit 0 no difference, 1 a difference, 64 wrong usage, 69 no GPU where
// one was asked for.
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <random>

#include "src/base/error.h"
#include "src/base/float_bits.h"
#include "src/base/numbers.h"
#include "src/base/parallel.h"
#include "src/contracts/contract.h"
#include "src/gpu/engine.h"
#include "src/problem/words.h"
#include "tests/fuzz/side.h"

namespace hw4::fuzz {
namespace {

constexpr int64_t kMostSeed = std::numeric_limits<int64_t>::max();
constexpr int kMostDifferences = 10; // stop after this many
constexpr const char* kUsage =
    "usage: differential [--seconds S] [--seed X] [--device cpu|gpu|all] [--jobs J] [--case C]";

struct Request {
    int64_t seconds = 10;
    int64_t seed = static_cast<int64_t>(std::random_device{}());
    std::optional<int64_t> only_case;
    bool cpu = true;
    bool gpu = true;
    bool gpu_needed = false;
    int jobs = available_processors();
};

[[noreturn]] void usage_error(const std::string& what) { throw Error(ExitCode::usage, what + "; " + kUsage); }

Request parse(int argc, char** argv) {
    Request request;
    for (int i = 1; i < argc; i += 2) {
        const std::string option = argv[i];
        const std::string text = i + 1 < argc ? argv[i + 1] : "";
        const auto number = [&](int64_t least, int64_t most) {
            const auto value = whole_number(text, least, most);
            if (!value) usage_error(option + " '" + text + "'");
            return *value;
        };
        if (option == "--seconds") {
            request.seconds = number(1, 1 << 30);
        } else if (option == "--seed") {
            request.seed = number(0, kMostSeed);
        } else if (option == "--jobs") {
            request.jobs = static_cast<int>(number(1, 1024));
        } else if (option == "--case") {
            request.only_case = number(0, kMostSeed);
        } else if (option == "--device" && (text == "cpu" || text == "gpu" || text == "all")) {
            request.cpu = text != "gpu";
            request.gpu = text != "cpu";
            request.gpu_needed = text == "gpu";
        } else {
            usage_error(option + " '" + text + "'");
        }
    }
    return request;
}

// The n-th case of a seed.
int64_t case_number(int64_t seed, int64_t n) {
    return static_cast<int64_t>(mixed(mixed(static_cast<uint64_t>(seed)) + static_cast<uint64_t>(n)) >> 1);
}

// The contracts that promise bytes.
std::vector<const Contract*> contracts_for(const Problem& problem) {
    std::vector<const Contract*> list;
    for (const Contract* contract : contracts())
        if (contract->compared == Compared::bytes && why_not(*contract, problem).empty()) list.push_back(contract);
    return list;
}

// The expected output under each contract that promises bytes.
using Expected = std::map<const Contract*, std::vector<float>>;

Expected expected_of(const DrawnCase& test) {
    Expected expected;
    for (const Contract* contract : contracts_for(test.problem)) {
        std::vector<float>& out = expected[contract];
        out.resize(test.output_floats());
        compute_by_reference(*contract, test.problem, test.qkv.data(), out.data());
    }
    return expected;
}

unsigned long checksum(const std::vector<float>& values) {
    return ::crc32_z(0, reinterpret_cast<const Bytef*>(values.data()), values.size() * sizeof(float));
}

// The first difference in words; empty where there is none.
std::string difference(const Problem& problem, const std::vector<float>& expected, const Answer& answer) {
    const auto dim = static_cast<size_t>(problem.dim);
    for (size_t i = 0; i < expected.size(); ++i) {
        const float got = answer.out[i / dim * answer.stride + i % dim];
        if (bits_of(expected[i]) == bits_of(got)) continue;
        char text[160];
        std::snprintf(text, sizeof text, ", column %zu: expected %.9g (%08x), got %.9g (%08x)", i % dim,
                      double{expected[i]}, bits_of(expected[i]), double{got}, bits_of(got));
        return place_of(problem, problem.operation->outputs, static_cast<int64_t>(i)) + text;
    }
    return "";
}

// The results of all threads.
class Tally {
public:
    void count(const std::string& kernel) {
        const std::lock_guard<std::mutex> lock(mutex_);
        ++comparisons_[kernel];
    }

    void differs(const DrawnCase& test, const Answer& answer, const std::string& what) {
        const std::lock_guard<std::mutex> lock(mutex_);
        ++differences_;
        std::printf("DIFFERS case %lld: %s, %s: %s; %s\n  again with: differential --case %lld\n",
                    static_cast<long long>(test.seed), answer.kernel.c_str(), answer.how.c_str(), what.c_str(),
                    test.name().c_str(), static_cast<long long>(test.seed));
    }

    void fails(std::exception_ptr failure) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!failure_) failure_ = std::move(failure);
    }

    bool enough() const {
        const std::lock_guard<std::mutex> lock(mutex_);
        return failure_ || differences_ >= kMostDifferences;
    }

    // Prints the closing lines. Rethrows a thread's exception.
    int close(int64_t cases, double seconds) const {
        if (failure_) std::rethrow_exception(failure_);
        int64_t all = 0;
        for (const auto& [kernel, comparisons] : comparisons_) {
            std::printf("  %-16s %9lld cases\n", kernel.c_str(), static_cast<long long>(comparisons));
            all += comparisons;
        }
        std::printf("%lld cases in %.1f s (%.0f a minute), %lld comparisons, %d differences\n",
                    static_cast<long long>(cases), seconds, static_cast<double>(cases) * 60 / seconds,
                    static_cast<long long>(all), differences_);
        return differences_ > 0 ? 1 : 0;
    }

private:
    mutable std::mutex mutex_;
    std::map<std::string, int64_t> comparisons_;
    int differences_ = 0;
    std::exception_ptr failure_;
};

class Worker {
public:
    Worker(bool cpu, bool gpu, Tally& tally) : tally_(tally) {
        if (cpu) sides_.push_back(make_cpu_side());
        if (gpu) sides_.push_back(make_gpu_side());
    }

    void run(int64_t number, bool describe = false) {
        const DrawnCase test(static_cast<uint64_t>(number));
        const Expected expected = expected_of(test);
        if (describe) print(test, expected);
        for (const auto& [contract, values] : expected) require_numbers(test, *contract, values);
        for (const std::unique_ptr<Side>& side : sides_) {
            Random ways(~test.seed); // the same for each side, with or without the other
            try {
                side->answer(test, ways,
                             [&](const Answer& answer) { judge(test, expected.at(answer.contract), answer); });
            } catch (const Error& error) { // from a CUDA call
                throw Error(error.code(), "case " + std::to_string(number) + ": " + error.what());
            }
        }
    }

private:
    static void print(const DrawnCase& test, const Expected& expected) {
        std::printf("%s\n  CRC-32 of the input %08lx", test.name().c_str(), checksum(test.qkv));
        for (const Contract* contract : contracts_for(test.problem))
            std::printf(", of the output under %s %08lx", contract->name, checksum(expected.at(contract)));
        std::printf("\n");
    }

    // All values are finite for inputs within the domain.
    void require_numbers(const DrawnCase& test, const Contract& contract, const std::vector<float>& expected) {
        if (std::all_of(expected.begin(), expected.end(), [](float x) { return std::isfinite(x); })) return;
        tally_.differs(test, {"the reference", &contract, contract.name, nullptr, 0, ""}, "a value is not finite");
    }

    void judge(const DrawnCase& test, const std::vector<float>& expected, const Answer& answer) {
        tally_.count(answer.kernel);
        const std::string what = answer.fault.empty() ? difference(test.problem, expected, answer) : answer.fault;
        if (!what.empty()) tally_.differs(test, answer, what);
    }

    Tally& tally_;
    std::vector<std::unique_ptr<Side>> sides_;
};

bool gpu_is_there(const Request& request) {
    if (!request.gpu) return false;
    const gpu::Unusable no_gpu = gpu::unusable();
    if (no_gpu.reason.empty()) return true;
    if (request.gpu_needed) throw Error(no_gpu.code, "no usable GPU: " + no_gpu.reason);
    std::printf("GPU kernels skipped, no usable GPU: %s\n", no_gpu.reason.c_str());
    return false;
}

int run(const Request& request) {
    using Clock = std::chrono::steady_clock;
    const bool gpu = gpu_is_there(request);
    const int jobs = request.only_case ? 1 : request.jobs;
    std::printf("differential: seed %lld, %d threads\n", static_cast<long long>(request.seed), jobs);
    std::fflush(stdout);
    Tally tally;
    std::atomic<int64_t> next{0};
    std::atomic<int64_t> done{0};
    const Clock::time_point start = Clock::now();
    const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
    on_threads(jobs, [&] {
        try {
            Worker worker(request.cpu, gpu, tally);
            if (request.only_case) {
                worker.run(*request.only_case, true);
                ++done;
                return;
            }
            while (seconds() < static_cast<double>(request.seconds) && !tally.enough()) {
                worker.run(case_number(request.seed, next++));
                ++done;
            }
        } catch (...) {
            tally.fails(std::current_exception());
        }
    });
    return tally.close(done, seconds());
}

} // namespace
} // namespace hw4::fuzz

int main(int argc, char** argv) {
    try {
        return hw4::fuzz::run(hw4::fuzz::parse(argc, argv));
    } catch (const hw4::Error& error) {
        std::fprintf(stderr, "differential: %s\n", error.what());
        return static_cast<int>(error.code());
    } catch (const std::exception& error) {
        std::fprintf(stderr, "differential: %s\n", error.what());
        return static_cast<int>(hw4::ExitCode::internal);
    }
}
