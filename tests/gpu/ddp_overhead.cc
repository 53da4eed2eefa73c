// What the machinery of data parallelism costs a single rank: forward and backward of a preset with
// and without the reducer, in turns.
//
//   ddp_overhead [--device cuda] [--preset cnn] [--batch 128] [--steps 200] [--rounds 7]
//
// Prints {"with_ddp_ms": a, "without_ms": b}, the medians over rounds of the time of a step. The
// optimizer's step, which is the same in both, is left out: as a share of a whole step the cost is
// smaller than these say.

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/engine/collectives/local_group.h"
#include "worker/engine/ddp/reducer.h"
#include "worker/engine/device/device.h"

namespace dp::engine {
namespace {

constexpr int kWarmUpSteps = 20;
constexpr int kClasses = 10;
const model::Shape kImage = {1, 28, 28};

struct Options {
  std::map<std::string, std::string> flags = {{"--device", "cuda"},
                                              {"--preset", "cnn"},
                                              {"--batch", "128"},
                                              {"--steps", "200"},
                                              {"--rounds", "7"}};

  const std::string& text(const std::string& flag) const { return flags.at(flag); }
  int number(const std::string& flag) const {
    int value = 0;
    DP_CHECK(absl::SimpleAtoi(text(flag), &value) && value > 0);
    return value;
  }
};

// Random images, so that no value is special.
struct Images {
  explicit Images(int count)
      : pixels(static_cast<size_t>(count) * 784), labels(count), numbers(count) {
    uint32_t state = 1;
    for (float& pixel : pixels) {
      state = state * 1664525u + 1013904223u;
      pixel = static_cast<float>(state >> 8) / static_cast<float>(1 << 24);
    }
    for (int i = 0; i < count; ++i) {
      labels[i] = i % kClasses;
      numbers[i] = i;
    }
  }
  Batch batch() const {
    return {.images = pixels,
            .labels = labels,
            .samples = numbers,
            .count = static_cast<int>(labels.size())};
  }

  std::vector<float> pixels;
  std::vector<int32_t> labels;
  std::vector<int64_t> numbers;
};

class OneRank {
 public:
  absl::Status Open(const Options& options) {
    DP_ASSIGN_OR_RETURN(device_, options.text("--device") == "cpu" ? OpenCpu(1) : OpenCuda(0));
    DP_ASSIGN_OR_RETURN(const auto specs, model::Preset(options.text("--preset")));
    DP_ASSIGN_OR_RETURN(const auto layers, model::CheckClassifier(specs, kImage, kClasses));
    layout_ = LayOut(layers);
    DP_ASSIGN_OR_RETURN(values_, device_->Allocate(layout_.size));
    DP_ASSIGN_OR_RETURN(gradients_, device_->Allocate(layout_.size));
    std::vector<float> initial(static_cast<size_t>(layout_.size));
    Initialize(layout_, 1, absl::MakeSpan(initial));
    device_->Write(initial, values_->span());
    DP_ASSIGN_OR_RETURN(network_,
                        device_->Compile(layers, {.batch_size = options.number("--batch")},
                                         values_->span(), gradients_->span()));
    group_ = std::move(MakeLocalGroups(1, {})[0]);
    reducer_ = std::make_unique<Reducer>(*group_, layout_, gradients_->span());
    return absl::OkStatus();
  }

  absl::StatusOr<double> MillisecondsAStep(const Images& images, int steps, bool with_ddp) {
    const absl::Time began = absl::Now();
    for (int i = 0; i < steps; ++i) DP_RETURN_IF_ERROR(Step(images.batch(), with_ddp));
    AwaitDevice();
    return absl::ToDoubleMilliseconds(absl::Now() - began) / steps;
  }

 private:
  absl::Status Step(const Batch& batch, bool with_ddp) {
    network_->Forward(batch, Mode::kTrain);
    const float scale = 1.0f / static_cast<float>(batch.count);
    if (!with_ddp) {
      network_->Backward(scale, [](int) {});
      return absl::OkStatus();
    }
    reducer_->BeginBackward(Reducer::Sync::kYes);
    network_->Backward(scale, [this](int parameter) { reducer_->GradientReady(parameter); });
    return reducer_->EndBackward();
  }

  // A read of the last gradient comes after all that was to be computed.
  void AwaitDevice() {
    float last = 0;
    device_->Read(gradients_->span().last(1), absl::MakeSpan(&last, 1));
  }

  std::unique_ptr<Device> device_;
  ParameterLayout layout_;
  std::unique_ptr<Array> values_, gradients_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<Group> group_;
  std::unique_ptr<Reducer> reducer_;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

absl::Status Run(const Options& options) {
  OneRank rank;
  DP_RETURN_IF_ERROR(rank.Open(options));
  const Images images(options.number("--batch"));
  std::vector<double> times[2];
  for (const bool with_ddp : {false, true})
    DP_RETURN_IF_ERROR(rank.MillisecondsAStep(images, kWarmUpSteps, with_ddp).status());
  for (int round = 0; round < options.number("--rounds"); ++round)
    for (const bool with_ddp : {false, true}) {
      DP_ASSIGN_OR_RETURN(const double time,
                          rank.MillisecondsAStep(images, options.number("--steps"), with_ddp));
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
