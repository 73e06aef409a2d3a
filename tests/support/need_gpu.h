// GPU tests report why they are skipped where there is no GPU.
#pragma once

#include <gtest/gtest.h>

#include "src/gpu/engine.h"

#define HW4_SKIP_WITHOUT_GPU()                                                                                         \
    do {                                                                                                               \
        const std::string hw4_reason = hw4::gpu::unusable().reason;                                                    \
        if (!hw4_reason.empty()) GTEST_SKIP() << "no usable GPU: " << hw4_reason;                                      \
    } while (false)
