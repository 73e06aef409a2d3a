// A training run that takes milliseconds: a tiny model and a short text.
#pragma once

#include <string>
#include <vector>

#include "src/step/configuration.h"
#include "src/step/tokens.h"
#include "src/step/trainer.h"
#include "src/step/weights.h"
#include "tests/support/temporary_folder.h"

namespace hw4 {

inline step::Configuration small_settings() {
    step::Configuration settings;
    settings.model = {12, 20, 2, 3, 11};
    settings.batch = 5;
    settings.context = 7;
    settings.steps = 20;
    return settings;
}

// A text of tokens 0 to 10.
inline std::string small_text() {
    std::vector<uint16_t> tokens;
    for (uint32_t i = 0; i < 300; ++i) tokens.push_back(static_cast<uint16_t>(i * i * 7 % 31 % 11));
    return bytes_of(tokens.data(), tokens.size());
}

inline void draw_all(step::Machine& machine, step::Trainer& trainer, int64_t seed) {
    const std::vector<step::Parameter>& list = trainer.parameters().list;
    for (size_t place = 0; place < list.size(); ++place) {
        std::vector<float> drawn(list[place].count());
        step::draw_weights(list[place], place, static_cast<uint64_t>(seed), 0, drawn.size(), drawn.data());
        machine.put(trainer.weights() + list[place].first, drawn.data(), drawn.size());
    }
}

// The losses and the gradient of some sequences, and a step by one rank.
struct Root {
    step::Owned<float> gradient;
    std::vector<double> losses;
};

inline Root root_of(step::Trainer& trainer, const step::Trainer::Batch& batch, int64_t first, int64_t count) {
    Root root{trainer.take_gradient(), {}};
    root.losses = trainer.root_into(batch, first, count, root.gradient.get());
    return root;
}

inline step::StepResult update(step::Trainer& trainer, int64_t t, const Root& whole) {
    trainer.squares_of_shard(whole.gradient.get());
    return trainer.finish(t, whole.losses, whole.gradient.get());
}

inline step::StepResult take_step(step::Trainer& trainer, int64_t t, const step::Trainer::Batch& batch, int64_t count) {
    return update(trainer, t, root_of(trainer, batch, 0, count));
}

// The gradient of a batch of small_settings() with drawn weights, in micro-batches of 4, and of what is left.
inline std::vector<float> small_gradient(step::Machine& machine) {
    const step::Configuration settings = small_settings();
    TemporaryFolder folder;
    write_file(folder / "t", small_text());
    const step::TokenFile text(folder / "t", 16, settings);
    step::Trainer trainer(machine, settings, 4);
    draw_all(machine, trainer, settings.seed);
    const auto batch = [&](int64_t first, int64_t count) { return text.sequences(settings, 0, first, count); };
    const Root root = root_of(trainer, batch, 0, settings.batch);
    std::vector<float> gradient(trainer.parameters().floats);
    machine.get(gradient.data(), root.gradient.get(), gradient.size());
    return gradient;
}

// Whether the naive form gives nearly the same gradient: other bytes, as near as float32 allows.
inline void expect_nearly(const std::vector<float>& expected, const std::vector<float>& got) {
    ASSERT_EQ(expected.size(), got.size());
    double largest = 0;
    double difference = 0;
    for (size_t i = 0; i < got.size(); ++i) {
        largest = std::max<double>(largest, std::abs(expected[i]));
        ASSERT_TRUE(std::isfinite(got[i])) << i;
        difference = std::max<double>(difference, std::abs(double{expected[i]} - got[i]));
    }
    EXPECT_GT(difference, 0);
    EXPECT_LT(difference, 2e-6 * largest);
}

} // namespace hw4
