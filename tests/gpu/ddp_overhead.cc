// Measures what the machinery of data parallelism costs a single rank: whole training steps of a
// preset with and without the reducer, in turns. Without the reducer, a device takes a step as one
// piece. With it, the step is cut at the buckets. Each bucket goes to a group of one, is waited for
// on the device's stream, and is updated by itself.
//
//   ddp_overhead [--device cuda] [--group local] [--preset cnn] [--batch 128] [--steps 200]
//                [--rounds 7]
//
// `--group nccl` takes a group over NCCL, whose thread, events and streams are then part of the
// cost. NCCL itself runs no kernel for a group of one. Prints {"with_ddp_ms": a, "without_ms": b}:
// medians over the rounds of the time of a step.

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/status.h"
#include "store/hash_store.h"
#include "worker/engine/collectives/local/local_group.h"
#include "worker/engine/collectives/nccl/nccl_group.h"
#include "worker/engine/data/dataset.h"
#include "worker/engine/ddp/reducer.h"
#include "worker/engine/device/device.h"
#include "worker/engine/device/testing/plain_step_program.h"

namespace dp::engine {
namespace {

constexpr int kWarmUpStepsMax = 20;
constexpr int kClasses = 10;

struct Options {
  std::map<std::string, std::string> flags = {{"--device", "cuda"}, {"--group", "local"},
                                              {"--preset", "cnn"},  {"--batch", "128"},
                                              {"--steps", "200"},   {"--rounds", "7"}};

  const std::string& text(const std::string& flag) const { return flags.at(flag); }
  int number(const std::string& flag) const {
    int value = 0;
    DP_CHECK(absl::SimpleAtoi(text(flag), &value) && value > 0);
    return value;
  }
};

// Random images, so that no value is special.
class Images final : public Dataset {
 public:
  explicit Images(int count)
      : pixels_(static_cast<size_t>(count) * 784), labels_(count), numbers_(count) {
    uint32_t state = 1;
    for (uint8_t& pixel : pixels_) {
      state = state * 1664525u + 1013904223u;
      pixel = static_cast<uint8_t>(state >> 24);
    }
    for (int i = 0; i < count; ++i) {
      labels_[i] = static_cast<uint8_t>(i % kClasses);
      numbers_[i] = i;
    }
  }

  int64_t size() const override { return static_cast<int64_t>(numbers_.size()); }
  const model::Shape& sample_shape() const override { return shape_; }
  int classes() const override { return kClasses; }
  Storage storage() const override { return StoredImages{pixels_, labels_, 0.5f, 0.5f}; }
  void Gather(absl::Span<const int64_t> samples, absl::Span<float> images,
              absl::Span<int32_t> labels) const override {
    for (size_t i = 0; i < samples.size(); ++i) {
      const auto first = pixels_.begin() + samples[i] * 784;
      std::transform(first, first + 784, images.begin() + i * 784,
                     [](uint8_t pixel) { return static_cast<float>(pixel) / 127.5f - 1.0f; });
      labels[i] = labels_[samples[i]];
    }
  }

  // All images, by their numbers.
  Batch batch() const { return {.samples = numbers_, .count = static_cast<int>(numbers_.size())}; }

 private:
  const model::Shape shape_ = {1, 28, 28};
  std::vector<uint8_t> pixels_;
  std::vector<uint8_t> labels_;
  std::vector<int64_t> numbers_;
};

class OneRank {
 public:
  explicit OneRank(const Options& options) : images_(options.number("--batch")) {}

  absl::Status Open(const Options& options) {
    DP_ASSIGN_OR_RETURN(device_, options.text("--device") == "cpu" ? OpenCpu(1) : OpenCuda(0));
    DP_ASSIGN_OR_RETURN(group_, OpenGroup(options.text("--group")));
    DP_ASSIGN_OR_RETURN(const auto specs, model::Preset(options.text("--preset")));
    DP_ASSIGN_OR_RETURN(const auto layers,
                        model::CheckClassifier(specs, images_.sample_shape(), kClasses));
    layout_ = LayOut(layers);
    const int64_t size = layout_.size;
    DP_ASSIGN_OR_RETURN(values_, device_->Allocate(size));
    layout_.parameters.push_back({.name = "tail", .offset = size, .size = kStepTailSize});
    layout_.size += kStepTailSize;
    DP_ASSIGN_OR_RETURN(gradients_, device_->Allocate(layout_.size));
    std::vector<float> initial(static_cast<size_t>(size));
    Initialize(LayOut(layers), 1, absl::MakeSpan(initial));
    device_->Write(initial, values_->span());
    const absl::Span<float> gradients = gradients_->span().first(static_cast<size_t>(size));
    DP_ASSIGN_OR_RETURN(network_,
                        device_->Compile(layers, {.batch_size = options.number("--batch")},
                                         values_->span(), gradients));
    const SgdOptions sgd = {.learning_rate = 0.01f, .momentum = 0.9f};
    DP_ASSIGN_OR_RETURN(optimizer_,
                        device_->MakeOptimizer({sgd}, LayOut(layers), values_->span(), gradients));
    reducer_ = std::make_unique<Reducer>(
        *group_, layout_, gradients_->span(),
        ReducerOptions{.gradients_on_device = device_->stream() != nullptr});
    for (const bool with_ddp : {false, true}) {
      DP_ASSIGN_OR_RETURN(programs_[with_ddp], MakeProgram(with_ddp ? reducer_.get() : nullptr));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<double> MillisecondsAStep(int steps, bool with_ddp) {
    StepProgram& program = *programs_[with_ddp];
    const absl::Time began = absl::Now();
    for (int i = 0; i < steps; ++i) {
      if (program.under_way() == program.under_way_max()) DP_RETURN_IF_ERROR(End(program));
      DP_RETURN_IF_ERROR(program.Begin({.batch = images_.batch(),
                                        .scale = 1.0f / static_cast<float>(images_.size()),
                                        .step = {.number = ++steps_}}));
    }
    while (program.under_way() > 0) DP_RETURN_IF_ERROR(End(program));
    return absl::ToDoubleMilliseconds(absl::Now() - began) / steps;
  }

 private:
  absl::StatusOr<std::unique_ptr<Group>> OpenGroup(const std::string& kind) {
    DP_CHECK(kind == "local" || kind == "nccl");
    if (kind == "local") return std::move(MakeLocalGroups(1, {})[0]);
    static NcclApi* api = nullptr;  // outlives every group
    DP_ASSIGN_OR_RETURN(auto loaded, LoadNccl());
    api = loaded.release();
    return ConnectNccl(*api, store_, 0, 1, {.compute_stream = device_->stream()});
  }

  absl::StatusOr<std::unique_ptr<StepProgram>> MakeProgram(Reducer* reducer) {
    const StepProgram::Parts parts = {.network = *network_,
                                      .optimizer = *optimizer_,
                                      .data = images_,
                                      .tail = gradients_->span().last(kStepTailSize),
                                      .reducer = reducer};
    DP_ASSIGN_OR_RETURN(std::unique_ptr<StepProgram> program, device_->MakeStepProgram(parts));
    if (program != nullptr) return program;
    return std::make_unique<PlainStepProgram>(*device_, parts, static_cast<int>(images_.size()),
                                              /*gathers=*/true);
  }

  absl::Status End(StepProgram& program) {
    DP_RETURN_IF_ERROR(reducer_->Settle());
    program.End();
    return device_->status();
  }

  const Images images_;
  HashStore store_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Group> group_;
  ParameterLayout layout_;  // of gradients and tail
  std::unique_ptr<Array> values_, gradients_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Reducer> reducer_;
  std::unique_ptr<StepProgram> programs_[2];  // without, and with the reducer
  int64_t steps_ = 0;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

absl::Status Run(const Options& options) {
  OneRank rank(options);
  DP_RETURN_IF_ERROR(rank.Open(options));
  std::vector<double> times[2];
  const int warm_up = std::min(kWarmUpStepsMax, options.number("--steps"));
  for (const bool with_ddp : {false, true})
    DP_RETURN_IF_ERROR(rank.MillisecondsAStep(warm_up, with_ddp).status());
  for (int round = 0; round < options.number("--rounds"); ++round)
    for (const bool with_ddp : {false, true}) {
      DP_ASSIGN_OR_RETURN(const double time,
                          rank.MillisecondsAStep(options.number("--steps"), with_ddp));
      times[with_ddp].push_back(time);
    }
  std::printf("{\"with_ddp_ms\": %.6f, \"without_ms\": %.6f}\n", Median(times[true]),
              Median(times[false]));
  return absl::OkStatus();
}

}  // namespace
}  // namespace dp::engine

int main(int argc, char** argv) {
  dp::engine::Options options;
  for (int i = 1; i + 1 < argc; i += 2) options.flags[argv[i]] = argv[i + 1];
  const absl::Status status = dp::engine::Run(options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
