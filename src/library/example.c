/* Attention of two heads on the host, and the logsumexp of each row: cc example.c -lhw4 */
#include <hw4.h>
#include <stdio.h>
#include <stdlib.h>

enum { kHeads = 2, kRows = 5, kDim = 8, kNumbers = kHeads * kRows * kDim };

static hw4_tensor tensor(float* data) {
    hw4_tensor t;
    t.data = data;
    t.row = kDim; /* strides, in elements */
    t.head = (int64_t)kRows * kDim;
    t.batch = (int64_t)kHeads * kRows * kDim;
    return t;
}

int main(void) {
    float numbers[3][kNumbers], o[kNumbers], lse[kHeads * kRows];
    hw4_call call = {0};
    for (int i = 0; i < 3 * kNumbers; ++i) numbers[i / kNumbers][i % kNumbers] = (float)(i * 37 % 19) / 8 - 1;
    call.size = sizeof call;
    call.contract = "f32";
    call.mask = HW4_CAUSAL;
    call.place = HW4_HOST;
    call.batches = 1;
    call.heads = call.kv_heads = kHeads;
    call.queries = call.keys = kRows;
    call.dim = kDim;
    call.q = tensor(numbers[0]);
    call.k = tensor(numbers[1]);
    call.v = tensor(numbers[2]);
    call.o = tensor(o);
    call.lse = lse;
    if (hw4_check(&call) != HW4_OK || hw4_run(&call) != HW4_OK) {
        fprintf(stderr, "%s\n", hw4_error());
        return EXIT_FAILURE;
    }
    for (int row = 0; row < kHeads * kRows; ++row) printf("%.9g %.9g\n", o[row * kDim], lse[row]);
    return EXIT_SUCCESS;
}
