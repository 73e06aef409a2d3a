#include "src/bench/gradients.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>

#include "src/base/parallel.h"
#include "src/bench/row_json.h"
#include "src/bench/sampling.h"
#include "src/bench/tables.h"
#include "src/bench/workbench.h"
#include "src/gpu/engine.h"
#include "src/io/case_values.h"

namespace hw4::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// How far backward is, for who waits for gradients of it.
class LayersDone {
public:
    void set(int layers) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            layers_ = layers;
        }
        changed_.notify_all();
    }
    void wait_for(int layers) {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return layers_ >= layers; });
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int layers_ = 0;
};

Cell attention_of(const GradientsCell& cell, const std::string& device) {
    Cell attention;
    attention.impl = "f32";
    attention.batch_size = cell.batch_size;
    attention.seq_len = cell.seq_len;
    attention.num_heads = cell.model->heads;
    attention.emb_dim = cell.model->width;
    attention.causal = true;
    attention.device = device;
    attention.threads = cell.threads;
    return attention;
}

CaseData drawn_data(const Problem& problem) {
    constexpr uint64_t kSeed = 1;
    CaseData data{problem, UntouchedVector<float>(problem.floats_in(problem.input_rows()))};
    fill_in_parallel({problem, distribution_of("normal:1"), kSeed}, 0, data.values.size(), data.values.data());
    return data;
}

} // namespace

std::vector<Tensor> Model::tensors() const {
    std::vector<Tensor> list;
    int done = 0;
    std::string prefix;
    const auto add = [&](const char* tensor, int rows, int columns = 1) {
        list.push_back({prefix + tensor, static_cast<size_t>(rows) * static_cast<size_t>(columns), done});
    };
    const auto add_norm = [&](const std::string& norm) {
        if (!in_cs336_way) add((norm + ".bias").c_str(), width);
        add((norm + ".weight").c_str(), width);
    };
    const auto add_linear = [&](const std::string& linear, int out, int in) {
        if (!in_cs336_way) add((linear + ".bias").c_str(), out);
        add((linear + ".weight").c_str(), out, in);
    };
    add("head.weight", vocabulary, width);
    add_norm("final_norm");
    for (done = 1; done <= layers; ++done) {
        prefix = "layer" + std::to_string(layers - done) + ".";
        if (in_cs336_way) {
            for (const char* const gate : {"w3", "w1"}) add_linear(gate, feed_forward, width);
            add_linear("w2", width, feed_forward);
        } else {
            add_linear("down", width, feed_forward);
            add_linear("up", feed_forward, width);
        }
        add_norm("norm2");
        add_linear("output", width, width);
        if (in_cs336_way)
            for (const char* const projection : {"v", "k", "q"}) add_linear(projection, width, width);
        else
            add_linear("qkv", 3 * width, width);
        add_norm("norm1");
    }
    done = layers;
    prefix = "";
    if (positions > 0) add("positions", positions, width);
    add("tokens", vocabulary, width);
    return list;
}

const std::vector<Model>& models() {
    static const std::vector<Model> list = {
        {"71m", "width 512, 12 layers, vocabulary 32000: 70859776 parameters in 149 tensors", 12, 512, 8, 2048, 32000,
         512, false},
        {"cs336-xl", "width 1600, 48 layers, vocabulary 10000: 1998235200 parameters in 435 tensors", 48, 1600, 25,
         6400, 10000, 0, true},
        {"tiny", "width 64, 2 layers, vocabulary 256: for trying out", 2, 64, 2, 256, 256, 32, false},
    };
    return list;
}

size_t count_of(const std::vector<Tensor>& tensors) {
    size_t count = 0;
    for (const Tensor& tensor : tensors) count += tensor.count;
    return count;
}

std::vector<Bucket> buckets_of(const std::vector<Tensor>& tensors, size_t bytes) {
    std::vector<Bucket> buckets;
    size_t next = 0;
    for (const Tensor& tensor : tensors) {
        const bool fits = !buckets.empty() && (buckets.back().count + tensor.count) * sizeof(float) <= bytes;
        if (!fits) buckets.push_back({next, 0, 0});
        buckets.back().count += tensor.count;
        buckets.back().after_layers = tensor.after_layers; // never fewer than those before
        next += tensor.count;
    }
    return buckets;
}

// The backward of attention, once for each layer.
struct GradientSteps::Pass {
    Pass(const GradientsCell& cell, const std::string& device)
        : attention(attention_of(cell, device)),
          workbench(device == "gpu" ? gpu_workbench() : cpu_workbench(cell.threads)), memory(workbench->free_bytes()),
          subject(workbench->prepare(attention, bench::Pass::backward, drawn_data(problem_of(attention, kBackward)),
                                     memory)) {}

    void run_layer() const {
        subject->run();
        workbench->wait();
    }

    Cell attention;
    std::unique_ptr<Workbench> workbench;
    MemoryCount memory;
    std::unique_ptr<Subject> subject;
};

GradientSteps::GradientSteps(const GradientsCell& first, const RankGroup& group, Ranks& ranks, Collectives& collectives)
    : group_(group), ranks_(ranks), collectives_(collectives), tensors_(first.model->tensors()) {}

GradientSteps::~GradientSteps() = default;

void GradientSteps::prepare(const GradientsCell& cell) {
    if (!pass_) pass_ = std::make_unique<Pass>(cell, group_.device);
}

// Only the calling thread talks to other ranks, so backward has another one where they overlap.
// Returns the seconds in calls, which are made whatever becomes of backward: others wait for them.
double GradientSteps::step(const GradientsCell& cell, const std::vector<Bucket>& buckets, Summation* summation,
                           Outcome& outcome) {
    LayersDone done;
    const auto backward = [&] {
        const Outcome of_step = outcome_of([&] {
            for (int layer = 0; layer < cell.model->layers; ++layer) {
                pass_->run_layer();
                done.set(layer + 1);
            }
        });
        if (of_step.status != Status::ok) outcome = of_step;
        done.set(cell.model->layers);
    };
    double communicating = 0;
    const auto add_up = [&] {
        if (summation == nullptr) return;
        for (const Bucket& bucket : buckets) {
            done.wait_for(bucket.after_layers);
            const Clock::time_point start = Clock::now();
            summation->sum(*memory_, count_of(tensors_), bucket.first, bucket.count);
            communicating += seconds_since(start);
        }
    };
    if (cell.way.during_backward()) {
        WorkerThreads thread;
        thread.start(1, [&](int) {
            if (group_.device == "gpu") static_cast<void>(gpu::unusable({}, ranks_.node_rank())); // a thread's own card
            backward();
        });
        add_up();
    } else {
        backward();
        add_up();
    }
    return communicating;
}

GradientsRow GradientSteps::measure(const GradientsCell& cell) {
    GradientsRow row{cell, group_, {}, "", "", 0, count_of(tensors_) * sizeof(float), {}, {}, std::nullopt};
    std::unique_ptr<Summation> summation;
    if (cell.way.kind != SyncWay::Kind::none) {
        row.outcome = agreed_outcome(ranks_, [&] {
            summation = make_summation(cell.via, group_.device == "gpu", cell.contributions, ranks_, collectives_);
        });
        if (row.outcome.status != Status::ok) return row;
        row.path = summation->path();
    }
    const std::vector<Bucket> buckets = buckets_of(tensors_, cell.way.most_in_call());
    const auto is_smaller = [](const Bucket& a, const Bucket& b) { return a.count < b.count; };
    row.outcome = agreed_outcome(ranks_, [&] {
        prepare(cell);
        if (summation) summation->reserve(std::max_element(buckets.begin(), buckets.end(), is_smaller)->count);
        const size_t parts = summation ? summation->parts().size() : 0;
        if (parts <= parts_) return;
        const size_t count = count_of(tensors_);
        memory_.reset();
        parts_ = 0;
        memory_ = group_.device == "gpu" ? card_floats(parts * count) : host_floats(parts * count);
        const std::vector<float> zeros(std::min<size_t>(count, 1 << 20)); // which stay zeros, however often added up
        for (size_t first = 0; first < parts * count; first += zeros.size())
            memory_->put(first, zeros.data(), std::min(zeros.size(), parts * count - first));
        parts_ = parts;
    });
    if (row.outcome.status != Status::ok) return row;
    row.kernel = pass_->subject->kernel;
    row.calls = summation ? buckets.size() : 0;
    std::vector<double> communicating;
    Outcome backward;
    const auto one_step = [&] { communicating.push_back(step(cell, buckets, summation.get(), backward)); };
    const std::vector<double> seconds = slowest_seconds(ranks_, collectives_, cell.rules, one_step);
    row.outcome = agreed_outcome(ranks_, [&] {
        if (backward.status != Status::ok) throw Error(ExitCode::internal, backward.reason);
    });
    if (row.outcome.status != Status::ok) return row;
    row.seconds = seconds;
    const auto timed = static_cast<std::ptrdiff_t>(seconds.size()); // the last ones: others were of the warm-up
    row.communicating = largest_of_ranks(ranks_, {communicating.end() - timed, communicating.end()});
    if (cell.way.kind == SyncWay::Kind::none) backward_s_ = median(seconds);
    if (backward_s_) row.exposed_s = median(seconds) - *backward_s_;
    return row;
}

std::string gradients_head(const RankGroup& group, const Model& model) {
    const std::vector<Tensor> tensors = model.tensors();
    return "# " + words_of(group) + "\n# " + model.name + ": " + std::to_string(count_of(tensors)) + " parameters in " +
           std::to_string(tensors.size()) +
           " tensors\n"
           "#       way  bucket MiB   calls     step ms  in calls ms  exposed ms  via      status\n";
}

std::string gradients_line(const GradientsRow& row) {
    const bool ok = row.outcome.status == Status::ok;
    const SyncWay& way = row.cell.way;
    const bool adds = way.kind != SyncWay::Kind::none;
    const std::string bucket =
        way.bucket_bytes == 0 ? "-" : with_digits("%.4g", static_cast<double>(way.bucket_bytes) / 1048576);
    char line[160];
    std::snprintf(
        line, sizeof line, "%11s  %10s  %6s  %10s  %11s  %10s  %-7s  ", name_of(way.kind), bucket.c_str(),
        ok ? std::to_string(row.calls).c_str() : "-", ok ? with_digits("%.3f", median(row.seconds) * 1e3).c_str() : "-",
        ok ? with_digits("%.3f", median(row.communicating) * 1e3).c_str() : "-",
        row.exposed_s ? with_digits("%.3f", *row.exposed_s * 1e3).c_str() : "-", adds ? name_of(row.cell.via) : "-");
    const std::string sharing = row.group.shares_cards() ? ", ranks share a card" : "";
    const std::string path = adds ? row.path : "backward alone, " + row.kernel;
    return line + (ok ? "ok: " + path + sharing : name_of(row.outcome.status) + (": " + row.outcome.reason)) + "\n";
}

std::string gradients_json(const GradientsRow& row) {
    const bool ok = row.outcome.status == Status::ok;
    const bool adds = row.cell.way.kind != SyncWay::Kind::none;
    JsonFields fields;
    fields.add("model", json_string(row.cell.model->name));
    fields.add("way", json_string(name_of(row.cell.way.kind)));
    fields.add("bucket_bytes", row.cell.way.bucket_bytes == 0 ? "null" : std::to_string(row.cell.way.bucket_bytes));
    fields.add("via", adds ? json_string(name_of(row.cell.via)) : "null");
    add_group(fields, row.group);
    fields.add("batch_size", row.cell.batch_size);
    fields.add("seq_len", row.cell.seq_len);
    fields.add("kernel", text_or_null(row.kernel));
    fields.add("status", json_string(name_of(row.outcome.status)));
    fields.add("reason", text_or_null(row.outcome.reason));
    fields.add("path", text_or_null(row.path));
    fields.add_size("bytes", row.bytes);
    fields.add_size("calls", row.calls);
    fields.add("samples", numbers_json(row.seconds));
    fields.add("in_calls", numbers_json(row.communicating));
    fields.add("step_s", ok ? json_number(median(row.seconds)) : "null");
    fields.add("in_calls_s", ok ? json_number(median(row.communicating)) : "null");
    fields.add("exposed_s", row.exposed_s ? json_number(*row.exposed_s) : "null");
    return fields.text();
}

} // namespace hw4::bench
