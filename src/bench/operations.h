// The operations of a training step, each timed alone where a step computes it: its operands are where the operations
// before it left them. Products are timed in turns with cuBLAS's, all others beside a copy of as many bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/step/linear.h"
#include "src/step/model.h"

namespace hw4::bench {

// Computes what operations are compared with, in the measured machine's stream.
class Yardstick {
public:
    virtual ~Yardstick() = default;

    virtual void multiply(const step::LinearProduct& product) = 0;
    virtual void copy(float* to, const float* from, size_t count) = 0;
    // The machine's own kernels, without the copies to and from the host that its operations make too.
    virtual void squares(const float* x, size_t count) = 0;
    virtual void cross_entropy(float* logits, int64_t rows, int64_t vocabulary, float share) = 0;
};

// Uses cuBLAS, in float32 without tensor cores. `stream`: a GPU machine's. Throws Unsupported, Error.
std::unique_ptr<Yardstick> gpu_yardstick(void* stream);

struct MeasuredOperation {
    std::string name;
    step::LinearProduct product{};           // no tokens: it is another operation
    double bytes = 0;                        // read and written, at least
    int64_t calls = 0;                       // of a step
    std::vector<double> seconds{}, beside{}; // samples of a call, and of cuBLAS's or a copy

    bool is_product() const { return product.tokens > 0; }
};

// A line for each operation, products first, with medians; and as a JSON list, where products alone have rows, columns
// and terms, and 10^9 FLOP a second, others 10^9 bytes. All have samples.
std::string operations_table(const std::vector<MeasuredOperation>& all, const step::Model& model);
std::string operations_json(const std::vector<MeasuredOperation>& all, const step::Model& model);

} // namespace hw4::bench
