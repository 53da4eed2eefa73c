// Trains a preset in one process. After each epoch, prints throughput, loss and test accuracy as
// one JSON object a line.
//
//    cpu_training [--preset cnn] [--epochs 1] [--batch 64] [--threads 1] [--lr 0.05]
//                 [--momentum 0.9] [--decay 0] [--mean 0] [--std 1] [--data DIR] [--seed 0]
//                 [--order-seed 1] [--samples 0] [--bf16 0]
//
// --samples: of the training set, and a sixth as many of the test set; 0: all of both.

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/engine/data/array_dataset.h"
#include "worker/engine/data/prefetch.h"
#include "worker/engine/device/device.h"

namespace dp::engine {
namespace {

struct Options {
  std::map<std::string, std::string> flags = {
      {"--preset", "cnn"},   {"--epochs", "1"},
      {"--batch", "64"},     {"--threads", "1"},
      {"--lr", "0.05"},      {"--momentum", "0.9"},
      {"--decay", "0"},      {"--mean", "0"},
      {"--std", "1"},        {"--seed", "0"},
      {"--order-seed", "1"}, {"--samples", "0"},
      {"--bf16", "0"},       {"--data", "/usr/share/datasets/fashion-mnist"}};

  const std::string& text(const std::string& flag) const { return flags.at(flag); }
  int number(const std::string& flag) const {
    int value = 0;
    DP_CHECK(absl::SimpleAtoi(text(flag), &value));
    return value;
  }
  float real(const std::string& flag) const {
    float value = 0;
    DP_CHECK(absl::SimpleAtof(text(flag), &value));
    return value;
  }
};

// A model with its arrays and optimizer.
struct Training {
  std::unique_ptr<Device> device;
  std::unique_ptr<Array> values;
  std::unique_ptr<Array> gradients;
  std::unique_ptr<Network> network;
  std::unique_ptr<Optimizer> optimizer;
};

absl::StatusOr<Training> Open(const Options& options, const Dataset& data) {
  DP_ASSIGN_OR_RETURN(const auto specs, model::Preset(options.text("--preset")));
  DP_ASSIGN_OR_RETURN(const auto layers,
                      model::CheckClassifier(specs, data.sample_shape(), data.classes()));
  const ParameterLayout layout = LayOut(layers);
  const int seed = options.number("--seed");
  Training t;
  DP_ASSIGN_OR_RETURN(t.device, OpenCpu(options.number("--threads")));
  DP_ASSIGN_OR_RETURN(t.values, t.device->Allocate(layout.size));
  DP_ASSIGN_OR_RETURN(t.gradients, t.device->Allocate(layout.size));
  Initialize(layout, seed, t.values->span());
  DP_ASSIGN_OR_RETURN(t.network, t.device->Compile(layers,
                                                   {.batch_size = options.number("--batch"),
                                                    .seed = static_cast<uint64_t>(seed),
                                                    .precision = options.number("--bf16") == 0
                                                                     ? Precision::kFloat32
                                                                     : Precision::kBfloat16},
                                                   t.values->span(), t.gradients->span()));
  const SgdOptions sgd = {options.real("--lr"), options.real("--momentum"),
                          options.real("--decay")};
  DP_ASSIGN_OR_RETURN(
      t.optimizer, t.device->MakeOptimizer({sgd}, layout, t.values->span(), t.gradients->span()));
  return t;
}

BatchResult RunEpoch(Training& t, const Dataset& data, const GlobalBatchSampler& sampler, Mode mode,
                     int epoch) {
  BatchResult total;
  Prefetch prefetch(data, sampler, 0, epoch * sampler.steps());
  while (const Prefetch::Step* step = prefetch.Next()) {
    const BatchResult result = t.network->Forward(step->batch, mode);
    total.loss_sum += result.loss_sum;
    total.correct += result.correct;
    total.count += result.count;
    if (mode == Mode::kEvaluate) continue;
    t.network->Backward(GradientScale(step->global_count, 1), [](int) {});
    t.optimizer->Step({.number = static_cast<int64_t>(step->batch.draw) + 1});
  }
  return total;
}

absl::Status Run(const Options& options) {
  const ArrayDatasetOptions files{
      .source = data::IdxSource{options.text("--data")},
      .normalization = {.mean = {options.real("--mean")}, .std = {options.real("--std")}}};
  DP_ASSIGN_OR_RETURN(const auto train, OpenArrayDataset(files, Split::kTrain));
  DP_ASSIGN_OR_RETURN(const auto test, OpenArrayDataset(files, Split::kTest));
  DP_ASSIGN_OR_RETURN(Training t, Open(options, *train));
  const int64_t samples = options.number("--samples");
  const auto some = [&](int64_t all, int64_t wanted) {
    return samples == 0 ? all : std::min(all, wanted);
  };
  GlobalBatchSampler sampler({.n = some(train->size(), samples),
                              .global_batch_size = options.number("--batch"),
                              .seed = static_cast<uint64_t>(options.number("--order-seed"))});
  const GlobalBatchSampler in_order({.n = some(test->size(), samples / 6),
                                     .global_batch_size = options.number("--batch"),
                                     .shuffle = false});
  for (int epoch = 0; epoch < options.number("--epochs"); ++epoch) {
    sampler.SetEpoch(epoch);
    const absl::Time begin = absl::Now();
    const BatchResult trained = RunEpoch(t, *train, sampler, Mode::kTrain, epoch);
    const absl::Time middle = absl::Now();
    const BatchResult tested = RunEpoch(t, *test, in_order, Mode::kEvaluate, epoch);
    std::printf(
        "{\"name\": \"cpu_training_%s\", \"epoch\": %d, \"images_per_second\": %.0f, "
        "\"train_seconds\": %.2f, \"test_seconds\": %.2f, \"loss\": %.4f, \"test_accuracy\": "
        "%.4f}\n",
        options.text("--preset").c_str(), epoch,
        static_cast<double>(trained.count) / absl::ToDoubleSeconds(middle - begin),
        absl::ToDoubleSeconds(middle - begin), absl::ToDoubleSeconds(absl::Now() - middle),
        trained.loss_sum / static_cast<double>(trained.count),
        static_cast<double>(tested.correct) / static_cast<double>(tested.count));
    std::fflush(stdout);
  }
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
