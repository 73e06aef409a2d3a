// The machine of `seq train`: one thread and plain loops that follow arithmetic.h and orders.h word for word.
#pragma once

#include <memory>

#include "src/step/machine.h"

namespace hw4::step {

std::unique_ptr<Machine> make_reference();

} // namespace hw4::step
