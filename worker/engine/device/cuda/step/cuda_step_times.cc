#include "worker/engine/device/cuda/step/cuda_step_times.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "worker/engine/device/cuda/network/cuda_device_context.h"
#include "worker/engine/device/cuda/network/cuda_device_optimizer.h"
#include "worker/engine/device/cuda/network/cuda_network.h"
#include "worker/engine/device/cuda/runtime/cuda_status.h"

namespace dp::engine::cuda {
namespace {

constexpr int64_t kFloatSize = sizeof(float);

// An event with the time at which the device reached it.
class TimedEvent {
 public:
  static absl::StatusOr<TimedEvent> Make() {
    TimedEvent event;
    cudaEvent_t made = nullptr;
    DP_CUDA_RETURN_IF_ERROR(cudaEventCreateWithFlags(&made, cudaEventBlockingSync));
    event.event_.reset(made);
    return event;
  }

  absl::Status Record(cudaStream_t stream) {
    DP_CUDA_RETURN_IF_ERROR(cudaEventRecord(event_.get(), stream));
    return absl::OkStatus();
  }
  absl::StatusOr<double> SecondsUntil(const TimedEvent& later) const {
    float ms = 0;
    DP_CUDA_RETURN_IF_ERROR(cudaEventElapsedTime(&ms, event_.get(), later.event_.get()));
    return ms / 1e3;
  }

 private:
  struct Destroy {
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  };
  std::unique_ptr<CUevent_st, Destroy> event_;
};

// A batch of random inputs in host memory.
class RandomBatch {
 public:
  explicit RandomBatch(const LayerProgram& program)
      : input_(program.arrays[program.tokens != kNone ? program.tokens : program.images].size),
        labels_(program.labels == kNone ? 0 : program.arrays[program.labels].size),
        targets_(program.targets == kNone ? 0 : program.arrays[program.targets].size, 0.5f),
        samples_(program.batch_size) {
    const auto classes = static_cast<uint32_t>(program.take_loss().classes);
    for (float& value : input_) {
      const uint32_t next = Next();
      value = program.tokens != kNone ? static_cast<float>(next % classes)
                                      : static_cast<float>(next % 1024) / 512.0f - 1.0f;
    }
    for (int32_t& label : labels_) label = static_cast<int32_t>(Next() % classes);
    for (size_t i = 0; i < samples_.size(); ++i) samples_[i] = static_cast<int64_t>(i);
  }

  Batch batch() const {
    return {.images = input_,
            .labels = labels_,
            .samples = samples_,
            .count = static_cast<int>(samples_.size()),
            .targets = targets_};
  }

 private:
  uint32_t Next() {
    state_ = state_ * 1664525u + 1013904223u;
    return state_ >> 8;
  }

  uint32_t state_ = 1;
  std::vector<float> input_;
  std::vector<int32_t> labels_;
  std::vector<float> targets_;
  std::vector<int64_t> samples_;
};

// A network and its optimizer, whose operations run one by one between events.
class MeasuredStep {
 public:
  explicit MeasuredStep(DeviceContext context) : context_(std::move(context)) {}

  absl::Status Prepare(absl::Span<const model::CheckedLayer> layers, const NetworkOptions& options,
                       bool adamw) {
    const ParameterLayout layout = LayOut(layers);
    DP_ASSIGN_OR_RETURN(values_, DeviceBuffer::Allocate(layout.size * kFloatSize));
    DP_ASSIGN_OR_RETURN(gradients_,
                        DeviceBuffer::Allocate((layout.size + kStepTailSize) * kFloatSize));
    DP_RETURN_IF_ERROR(FillValues(layout));
    const auto size = static_cast<size_t>(layout.size);
    const absl::Span<float> values(values_.as<float>(), size);
    const absl::Span<float> gradients(gradients_.as<float>(), size);
    DP_ASSIGN_OR_RETURN(network_, CudaNetwork::Make(context_, layers, options, values, gradients));
    context_.SavePlans();
    OptimizerOptions update = {.update = SgdOptions{.learning_rate = 1e-4, .momentum = 0.9f}};
    if (adamw) update.update = AdamWOptions{.learning_rate = 1e-4};
    DP_ASSIGN_OR_RETURN(optimizer_, MakeCudaOptimizer(context_, update, layout, values, gradients));
    tail_ = gradients_.as<float>() + layout.size;
    for (size_t i = 0; i < operations() + 2; ++i) {
      DP_ASSIGN_OR_RETURN(events_.emplace_back(), TimedEvent::Make());
    }
    return PlaceBatch();
  }

  // Operations of the program; the optimizer comes behind them.
  size_t operations() const { return network_->program().operations.size(); }
  std::string NameOf(size_t operation) const {
    return operation == operations() ? "optimizer"
                                     : Describe(network_->program().operations[operation].kind);
  }

  // Takes one step, and adds the time of each operation to `times`. A step without events comes
  // before, so that the host is ahead and the device does not wait for it between operations.
  absl::Status Measure(std::vector<std::vector<double>>& times) {
    DP_RETURN_IF_ERROR(Queue(/*with_events=*/false));
    DP_RETURN_IF_ERROR(Queue(/*with_events=*/true));
    DP_RETURN_IF_ERROR(context_.Synchronize());
    for (size_t i = 0; i <= operations(); ++i) {
      DP_ASSIGN_OR_RETURN(const double seconds, events_[i].SecondsUntil(events_[i + 1]));
      times[i].push_back(seconds);
    }
    return context_.status();
  }

 private:
  absl::Status FillValues(const ParameterLayout& layout) {
    std::vector<float> initial(static_cast<size_t>(layout.size));
    Initialize(layout, /*seed=*/1, absl::MakeSpan(initial));
    DP_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(values_.data(), initial.data(), values_.bytes(),
                                            cudaMemcpyHostToDevice, context_.stream()));
    DP_RETURN_IF_ERROR(gradients_.Zero(context_.stream()));
    return context_.Synchronize();
  }

  // Leaves a batch, and the scale of its gradients, in the network's memory.
  absl::Status PlaceBatch() {
    const RandomBatch batch(network_->program());
    network_->Forward(batch.batch(), Mode::kTrain);
    const op::TakeLoss& loss = network_->program().take_loss();
    const auto rows = static_cast<float>(loss.samples * loss.rows_per_sample);
    network_->Backward(1 / rows, [](int) {});
    DP_RETURN_IF_ERROR(context_.Synchronize());
    return context_.status();
  }

  absl::Status Queue(bool with_events) {
    auto* const optimizer = dynamic_cast<CudaOptimizer*>(optimizer_.get());
    DP_CHECK(optimizer != nullptr);
    DP_RETURN_IF_ERROR(optimizer->Prepare({.number = ++steps_}));
    const cudaStream_t stream = context_.stream();
    for (size_t i = 0; i <= operations(); ++i) {
      if (with_events) DP_RETURN_IF_ERROR(events_[i].Record(stream));
      DP_RETURN_IF_ERROR(i < operations() ? network_->QueueOperations(i, i + 1, tail_)
                                          : optimizer->Queue(network_->memory().rounded()));
    }
    return with_events ? events_[operations() + 1].Record(stream) : absl::OkStatus();
  }

  DeviceContext context_;
  DeviceBuffer values_;
  DeviceBuffer gradients_;
  float* tail_ = nullptr;
  std::unique_ptr<CudaNetwork> network_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<TimedEvent> events_;  // before each operation, and behind the optimizer
  int64_t steps_ = 0;
};

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void AddTo(std::vector<TimeRow>& rows, const std::string& name, double seconds) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const TimeRow& row) { return row.name == name; });
  if (found != rows.end()) {
    found->seconds += seconds;
  } else {
    rows.push_back({name, seconds});
  }
}

}  // namespace

absl::StatusOr<std::vector<TimeRow>> MeasureStep(absl::Span<const model::CheckedLayer> layers,
                                                 const NetworkOptions& options,
                                                 const StepTiming& timing) {
  DP_CHECK(timing.rounds > 0);
  DP_ASSIGN_OR_RETURN(DeviceContext context, DeviceContext::Open(0));
  MeasuredStep step(std::move(context));
  DP_RETURN_IF_ERROR(step.Prepare(layers, options, timing.adamw));
  std::vector<std::vector<double>> times(step.operations() + 1);
  for (int round = 0; round < timing.rounds; ++round) DP_RETURN_IF_ERROR(step.Measure(times));
  std::vector<TimeRow> rows;
  for (size_t i = 0; i < times.size(); ++i) AddTo(rows, step.NameOf(i), MedianOf(times[i]));
  return rows;
}

}  // namespace dp::engine::cuda
