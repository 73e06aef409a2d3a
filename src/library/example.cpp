// Attention of grouped heads under fixed16 on the host: c++ example.cpp -lhw4
// For a GPU: place = HW4_DEVICE, device pointers, a stream, and a workspace of needs.workspace_bytes.
#include <hw4.h>

#include <cstdio>
#include <stdexcept>
#include <vector>

static void require(int code) {
    if (code != HW4_OK) throw std::runtime_error(hw4_error());
}

int main() try {
    const int64_t batches = 2, heads = 4, kv_heads = 2, rows = 100, dim = 64;
    std::vector<float> q(batches * heads * rows * dim), k(batches * kv_heads * rows * dim), v(k.size()), o(q.size());
    for (size_t i = 0; i < q.size(); ++i) q[i] = static_cast<float>(i * 31 % 101) / 64 - 0.75f;
    for (size_t i = 0; i < k.size(); ++i) k[i] = v[i] = static_cast<float>(i * 29 % 103) / 64 - 0.75f;
    const auto tensor = [&](std::vector<float>& data, int64_t of_heads) {
        return hw4_tensor{data.data(), of_heads * rows * dim, rows * dim, dim};
    };
    hw4_call call{};
    call.size = sizeof call;
    call.contract = "fixed16";
    call.batches = batches, call.heads = heads, call.kv_heads = kv_heads;
    call.queries = call.keys = rows, call.dim = dim;
    call.q = tensor(q, heads), call.k = tensor(k, kv_heads), call.v = tensor(v, kv_heads), call.o = tensor(o, heads);
    hw4_needs needs{};
    needs.size = sizeof needs;
    require(hw4_plan(&call, &needs));
    require(hw4_run(&call)); // on the host the library allocates the workspace
    std::printf("%s, kernel %s: O[0] = %.9g\n", hw4_revision(call.contract, call.operation), needs.kernel, o[0]);
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
