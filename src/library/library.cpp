// The functions of include/hw4.h: only here do errors become codes and a sentence.
#include <exception>
#include <new>
#include <string>

#include "src/base/error.h"
#include "src/base/version.h"
#include "src/library/call.h"

namespace hw4::library {
namespace {

std::string& last_error() {
    thread_local std::string text;
    return text;
}

int failed(ExitCode code, const char* text) noexcept {
    try {
        last_error() = text;
    } catch (...) { // no memory for the sentence: only the code remains
        last_error().clear();
    }
    return static_cast<int>(code);
}

template <class Work>
int guarded(const Work& work) noexcept {
    try {
        work();
        return HW4_OK;
    } catch (const Error& error) {
        return failed(error.code(), error.what());
    } catch (const std::bad_alloc&) {
        return failed(ExitCode::out_of_memory, "out of host memory");
    } catch (const std::exception& error) {
        return failed(ExitCode::internal, error.what());
    } catch (...) {
        return failed(ExitCode::internal, "unknown error");
    }
}

void require(const void* pointer, const char* name) {
    if (pointer == nullptr) throw Error(ExitCode::usage, std::string(name) + " is null");
}

} // namespace
} // namespace hw4::library

using namespace hw4::library; // NOLINT(google-build-using-namespace): the file contains nothing else

int hw4_plan(const hw4_call* call, hw4_needs* needs) {
    return guarded([&] {
        require(call, "call");
        require(needs, "needs");
        if (needs->size != sizeof(hw4_needs))
            throw hw4::Error(hw4::ExitCode::usage, "hw4_needs.size is " + std::to_string(needs->size) + ", need " +
                                                       std::to_string(sizeof(hw4_needs)));
        const Call asked = checked(*call, Pointers::none);
        const Needs found = call->place == HW4_HOST ? on_host::plan(asked) : on_device::plan(asked);
        *needs = {sizeof(hw4_needs), found.workspace_bytes, found.most_workspace, found.check_bytes, found.kernel};
    });
}

int hw4_run(const hw4_call* call) {
    return guarded([&] {
        require(call, "call");
        const Call asked = checked(*call, Pointers::all);
        call->place == HW4_HOST ? on_host::run(asked) : on_device::run(asked);
    });
}

int hw4_check(const hw4_call* call) {
    return guarded([&] {
        require(call, "call");
        const Call asked = checked(*call, Pointers::inputs);
        call->place == HW4_HOST ? on_host::check(asked) : on_device::check(asked);
    });
}

int hw4_append(const hw4_append_call* call) {
    return guarded([&] {
        require(call, "call");
        const hw4::Append rows = checked(*call);
        call->place == HW4_HOST ? on_host::append(rows) : on_device::append(rows, call->stream);
    });
}

int hw4_rope_table(double theta, int64_t positions, int64_t dim, float* table) {
    return guarded([&] {
        require(table, "table");
        const auto need = [](bool holds, const char* name, auto got, const char* what) {
            if (!holds)
                throw hw4::Error(hw4::ExitCode::usage, std::string("hw4_rope_table: ") + name + " is " +
                                                           std::to_string(got) + ", need " + what);
        };
        need(theta >= 1 && theta <= hw4::kMostRopeTheta, "theta", theta, "1 to 1e12");
        need(positions >= 1 && positions <= hw4::kMostRopePositions, "positions", positions, "1 to 1048576");
        need(dim >= 2 && dim <= hw4::kMostRopeColumns && dim % 2 == 0, "dim", dim, "an even number from 2 to 65536");
        hw4::fill_rope_table(theta, positions, dim, table);
    });
}

const char* hw4_error(void) { return last_error().c_str(); }

int hw4_gpu(void) {
    return guarded([] { on_device::require_gpu(); });
}

int hw4_abi(void) { return HW4_ABI; }

const char* hw4_version(void) { return hw4::kVersion; }

const char* hw4_revision(const char* contract, int32_t operation) {
    thread_local std::string text;
    const int code = guarded([&] {
        require(contract, "contract");
        const hw4::Contract* const found = hw4::find_contract(contract);
        const bool known = found != nullptr && (operation == HW4_FORWARD || operation == HW4_BACKWARD);
        text = known ? found->revision_of(operation == HW4_FORWARD ? hw4::kForward : hw4::kBackward) : "";
    });
    return code == HW4_OK && !text.empty() ? text.c_str() : nullptr;
}
