#include "worker/engine/device/cuda/cuda_step_graph.h"

#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/status.h"
#include "worker/engine/device/cuda/cuda_status.h"

namespace dp::engine::cuda {
namespace {

// Enough that the device never waits for the host; a loss is known as many steps late.
constexpr int kStepsUnderWay = 4;

}  // namespace

absl::StatusOr<std::unique_ptr<StepProgram>> CudaStepProgram::Make(DeviceContext& context,
                                                                   CudaNetwork& network,
                                                                   CudaOptimizer& optimizer,
                                                                   const Dataset& data) {
  std::unique_ptr<CudaStepProgram> program(new CudaStepProgram(context, network, optimizer));
  DP_RETURN_IF_ERROR(program->Prepare(data));
  return program;
}

// Steps under way write into memory that goes.
CudaStepProgram::~CudaStepProgram() { context_.Note(context_.Synchronize()); }

int CudaStepProgram::under_way_max() const { return kStepsUnderWay; }

absl::Status CudaStepProgram::Prepare(const Dataset& data) {
  DP_ASSIGN_OR_RETURN(data_, CudaDataset::Upload(context_, data));
  const BatchBlock& place = network_.memory().block();
  const int64_t bytes = has_data() ? place.told_bytes() : place.bytes;
  DP_ASSIGN_OR_RETURN(staging_, PinnedRing::Make(kStepsUnderWay, bytes));
  void* results = nullptr;
  DP_CUDA_RETURN_IF_ERROR(cudaMallocHost(&results, kStepsUnderWay * sizeof(LossSums)));
  results_.reset(static_cast<LossSums*>(results));
  slots_.resize(kStepsUnderWay);
  for (Slot& slot : slots_) {
    DP_ASSIGN_OR_RETURN(slot.done, Event::Make());
  }
  return absl::OkStatus();
}

void CudaStepProgram::Begin(const Input& input) {
  DP_CHECK(under_way() < under_way_max());
  const size_t slot = static_cast<size_t>(begun_++ % kStepsUnderWay);
  slots_[slot].count = input.batch.count;
  context_.Use();
  context_.Do([&]() -> absl::Status {
    DP_RETURN_IF_ERROR(Stage(input));
    DP_RETURN_IF_ERROR(optimizer_.Prepare(input.number));
    DP_RETURN_IF_ERROR(QueueStep());
    return QueueResult(slot);
  });
}

BatchResult CudaStepProgram::End() {
  DP_CHECK(under_way() > 0);
  const size_t slot = static_cast<size_t>(ended_++ % kStepsUnderWay);
  context_.Use();
  context_.Do([&] { return slots_[slot].done.Synchronize(); });
  const LossSums sums = context_.status().ok() ? results_[slot] : LossSums();
  return {.loss_sum = sums.loss_sum, .correct = sums.correct, .count = slots_[slot].count};
}

absl::Status CudaStepProgram::Stage(const Input& input) {
  DP_ASSIGN_OR_RETURN(void* slot, staging_.Acquire());
  auto* const block = static_cast<char*>(slot);
  const BatchBlock& place = network_.memory().block();
  const auto fill = has_data() ? &FillSamples : &FillBatchBlock;
  fill(network_.program(), place, input.batch, block);
  const StepInput step = {
      .count = input.batch.count, .draw = input.batch.draw, .gradient_scale = input.scale};
  std::memcpy(block + place.step, &step, sizeof(step));
  DP_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(network_.memory().batch(), block,
                                          has_data() ? place.told_bytes() : place.bytes,
                                          cudaMemcpyHostToDevice, context_.stream()));
  return staging_.Release(context_.stream());
}

absl::Status CudaStepProgram::QueueStep() {
  // Its own steps round the values that they write.
  if (rounded_changes_ != context_.changes()) {
    DP_RETURN_IF_ERROR(network_.RoundValues());
    rounded_changes_ = context_.changes();
  }
  switch (book_.WayOf(form())) {
    case StepGraphBook::Way::kOperations:
      return QueueOperations();
    case StepGraphBook::Way::kCapture:
      return Capture();
    case StepGraphBook::Way::kLaunch:
      break;
  }
  return graph_.Launch(context_.stream());
}

// Step by step goes always, if slower.
absl::Status CudaStepProgram::Capture() {
  absl::StatusOr<GraphExec> graph =
      CaptureGraph(context_.stream(), [this] { return QueueOperations(); });
  if (!graph.ok()) {
    book_.Refused();
    Log(Severity::kWarning, "gpu_graph_refused",
        {{"error", std::string(graph.status().message())}});
    return QueueOperations();
  }
  book_.Captured();
  graph_ = *std::move(graph);
  Log(Severity::kInfo, "gpu_graph_captured", {{"nodes", graph_.nodes()}});
  return graph_.Launch(context_.stream());
}

absl::Status CudaStepProgram::QueueOperations() {
  if (has_data()) {
    DP_RETURN_IF_ERROR(data_->Gather(context_.stream(), network_.program(), network_.memory()));
  }
  DP_RETURN_IF_ERROR(network_.QueueStep());
  return optimizer_.Queue(network_.memory().rounded());
}

absl::Status CudaStepProgram::QueueResult(size_t slot) {
  DP_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(&results_[slot], network_.memory().sums(),
                                          sizeof(LossSums), cudaMemcpyDeviceToHost,
                                          context_.stream()));
  return slots_[slot].done.Record(context_.stream());
}

StepForm CudaStepProgram::form() const {
  return {.values = network_.memory().values(),
          .gradients = network_.memory().gradient(0),
          .data = has_data() ? data_->data() : nullptr,
          .batch_size = network_.program().batch_size};
}

}  // namespace dp::engine::cuda
