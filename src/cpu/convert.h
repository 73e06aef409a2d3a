// Launches of kernels that take other elements than the launch's tensors have, or numbers that the contract rounds: the
// CPU's counterpart of src/gpu/convert.cu. Under bf16 and fp16 a kernel that takes float32 is f32's, on numbers that
// are rounded to the contract's element and widened again; what it gives is rounded. So it has the reference's bytes.
#pragma once

#include "src/cpu/kernels.h"

namespace hw4::cpu {

// The inputs stand converted at the beginning of the scratch memory, then the outputs where the launch's tensors cannot
// hold them, then what the kernel itself needs.
class Conversion {
public:
    Conversion(const Kernel& kernel, const Problem& problem);

    bool is_needed() const { return converts_inputs_ || converts_outputs_; }
    // As the kernel sees it.
    const Problem& problem() const { return problem_; }
    size_t bytes() const; // of scratch memory

    // Backward recomputes O: that of an earlier forward pass was rounded, and the gradients are of the one before.
    void launch(const Launch& asked) const;

private:
    // The problem's inputs or outputs together, in whole cache lines.
    size_t bytes_of(const List<Operand>& list) const;
    bool changes_element() const { return problem_.element != asked_; }
    void convert_all(const Launch& launch, const List<Operand>& list, const Tensor* from, const Tensor* to) const;

    const Kernel& kernel_;
    Problem problem_;
    const Element asked_;    // of the launch's tensors
    const Element rounding_; // of the contract; float32: none
    bool converts_inputs_;
    bool converts_outputs_;
};

} // namespace hw4::cpu
