// seq train: training on the sequential reference.
#include <cstdio>

#include "src/ranks/launched.h"
#include "src/step/reference.h"
#include "src/step/training.h"

namespace hw4::step {

void train_by_reference(int argc, char** argv, const std::string& version) {
    const TrainingRequest request = parse_training(argc, argv, {});
    if (request.action == Action::help) std::fputs(training_help("seq", "").c_str(), stdout);
    if (request.action == Action::version) std::fputs(version.c_str(), stdout);
    if (request.action != Action::run) return;
    OneRank alone;
    run_training(request, "seq", 1, alone, make_reference);
}

} // namespace hw4::step
