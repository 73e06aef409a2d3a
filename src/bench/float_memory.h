// Floats in the memory of the processor or of a card, as what measures sees them: no CUDA type here.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace hw4::bench {

class FloatMemory {
public:
    virtual ~FloatMemory() = default;

    virtual float* data() const = 0; // for whoever has that memory
    virtual bool on_card() const = 0;
    virtual void put(size_t first, const float* from, size_t count) = 0;
    virtual void get(size_t first, size_t count, float* to) const = 0;
};

// Throws std::bad_alloc.
std::unique_ptr<FloatMemory> host_floats(size_t count);

// On the card that the calling thread uses. Throws Error.
std::unique_ptr<FloatMemory> card_floats(size_t count);
// Of the host, from and to which a card copies by itself.
std::unique_ptr<FloatMemory> pinned_floats(size_t count);
// What tells the card that the calling thread uses from others of its machine.
std::string card_identity();

} // namespace hw4::bench
