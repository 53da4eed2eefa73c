#include "worker/engine/device/cuda/step/cuda_step_graph.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/program/log.h"
#include "base/status.h"
#include "worker/engine/device/cuda/runtime/cuda_status.h"
#include "worker/engine/device/cuda/step/cuda_step_cut.h"

namespace dp::engine::cuda {
namespace {

// Enough that the device never waits for the host. When a loss is known, three later steps have
// been begun.
constexpr int kStepsUnderWay = 4;

static_assert(offsetof(StepTail, gradient_norm) == kStepTailSize * sizeof(float));

// Casts a part that this device made.
template <typename Made, typename Part>
Made& MadeHere(Part& part) {
  auto* const made = dynamic_cast<Made*>(&part);
  DP_CHECK(made != nullptr);
  return *made;
}

std::vector<size_t> EndsOfPieces(CudaNetwork& network, const Reducer* reducer) {
  if (reducer == nullptr) return CutStep(network.program(), {});
  return CutStep(network.program(), reducer->buckets());
}

}  // namespace

CudaStepProgram::CudaStepProgram(DeviceContext& context, const Parts& parts)
    : context_(context),
      network_(MadeHere<CudaNetwork>(parts.network)),
      optimizer_(MadeHere<CudaOptimizer>(parts.optimizer)),
      reducer_(parts.reducer),
      tail_(parts.tail.data()),
      ends_(EndsOfPieces(network_, reducer_)) {
  DP_CHECK(parts.tail.size() == kStepTailSize);
}

absl::StatusOr<std::unique_ptr<StepProgram>> CudaStepProgram::Make(DeviceContext& context,
                                                                   const Parts& parts) {
  std::unique_ptr<CudaStepProgram> program(new CudaStepProgram(context, parts));
  DP_RETURN_IF_ERROR(program->Prepare(parts.data));
  return program;
}

// Steps under way write into memory that is about to be freed.
CudaStepProgram::~CudaStepProgram() { context_.Note(context_.Synchronize()); }

int CudaStepProgram::under_way_max() const { return kStepsUnderWay; }

absl::Status CudaStepProgram::Prepare(const Dataset& data) {
  DP_ASSIGN_OR_RETURN(data_, CudaDataset::Upload(context_, data));
  const BatchBlock& place = network_.memory().block();
  const int64_t bytes = has_data() ? place.told_bytes() : place.bytes;
  DP_ASSIGN_OR_RETURN(staging_, PinnedRing::Make(kStepsUnderWay, bytes));
  void* tails = nullptr;
  DP_CUDA_RETURN_IF_ERROR(cudaMallocHost(&tails, kStepsUnderWay * sizeof(StepTail)));
  tails_.reset(static_cast<StepTail*>(tails));
  done_.resize(kStepsUnderWay);
  for (Event& done : done_) {
    DP_ASSIGN_OR_RETURN(done, Event::Make());
  }
  return absl::OkStatus();
}

absl::Status CudaStepProgram::Begin(const Input& input) {
  DP_CHECK(under_way() < under_way_max());
  const auto slot = static_cast<size_t>(begun_++ % kStepsUnderWay);
  context_.Use();
  if (reducer_ != nullptr) reducer_->BeginBackward(Reducer::Sync::kYes);
  context_.Do([&]() -> absl::Status {
    DP_RETURN_IF_ERROR(Stage(input));
    DP_RETURN_IF_ERROR(optimizer_.Prepare(input.step));
    DP_RETURN_IF_ERROR(RoundValues());
    return QueuePieces();
  });
  DP_RETURN_IF_ERROR(Exchange());
  context_.Do([&] { return QueueResult(slot); });
  return absl::OkStatus();
}

StepTail CudaStepProgram::End() {
  DP_CHECK(under_way() > 0);
  const auto slot = static_cast<size_t>(ended_++ % kStepsUnderWay);
  context_.Use();
  context_.Do([&] { return done_[slot].Synchronize(); });
  return context_.status().ok() ? tails_[slot] : StepTail();
}

absl::Status CudaStepProgram::Stage(const Input& input) {
  DP_ASSIGN_OR_RETURN(void* slot, staging_.Acquire());
  auto* const block = static_cast<char*>(slot);
  const BatchBlock& place = network_.memory().block();
  const auto fill = has_data() ? &FillSamples : &FillBatchBlock;
  fill(network_.program(), place, input.batch, block);
  const StepInput step = {.count = input.batch.count,
                          .draw = input.batch.draw,
                          .gradient_scale = input.scale,
                          .leaving = input.leaving ? 1.0f : 0.0f};
  std::memcpy(block + place.step, &step, sizeof(step));
  DP_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(network_.memory().batch(), block,
                                          has_data() ? place.told_bytes() : place.bytes,
                                          cudaMemcpyHostToDevice, context_.stream()));
  return staging_.Release(context_.stream());
}

// The program's own steps round the values that they write.
absl::Status CudaStepProgram::RoundValues() {
  if (rounded_changes_ == context_.changes()) return absl::OkStatus();
  rounded_changes_ = context_.changes();
  return network_.RoundValues();
}

absl::Status CudaStepProgram::QueuePieces() {
  using Way = StepGraphBook::Way;
  Way way = book_.WayOf(form());
  if (way == Way::kCapture) graphs_.clear();
  for (size_t piece = 0; piece < ends_.size(); ++piece) {
    if (way == Way::kCapture && !Capture(piece)) way = Way::kOperations;
    DP_RETURN_IF_ERROR(way == Way::kOperations ? QueuePiece(piece)
                                               : graphs_[piece].Launch(context_.stream()));
    TellReady(piece);
  }
  if (way == Way::kCapture) NoteCaptured();
  return absl::OkStatus();
}

// A refused capture is no error: operations then run one by one, which is slower.
bool CudaStepProgram::Capture(size_t piece) {
  absl::StatusOr<GraphExec> graph =
      CaptureGraph(context_.stream(), [this, piece] { return QueuePiece(piece); });
  if (!graph.ok()) {
    book_.Refused();
    Log(Severity::kWarning, "gpu_graph_refused",
        {{"error", std::string(graph.status().message())}});
    return false;
  }
  graphs_.push_back(*std::move(graph));
  return true;
}

void CudaStepProgram::NoteCaptured() {
  book_.Captured();
  size_t nodes = 0;
  for (const GraphExec& graph : graphs_) nodes += graph.nodes();
  Log(Severity::kInfo, "gpu_graph_captured", {{"graphs", graphs_.size()}, {"nodes", nodes}});
}

absl::Status CudaStepProgram::QueuePiece(size_t piece) {
  if (piece == 0 && has_data()) {
    DP_RETURN_IF_ERROR(data_->Gather(context_.stream(), network_.program(), network_.memory()));
  }
  DP_RETURN_IF_ERROR(network_.QueueOperations(begin_of(piece), ends_[piece], tail_));
  return reducer_ == nullptr ? optimizer_.Queue(network_.memory().rounded()) : absl::OkStatus();
}

void CudaStepProgram::TellReady(size_t piece) {
  if (reducer_ == nullptr) return;
  const LayerProgram& program = network_.program();
  if (piece == 0) reducer_->GradientReady(static_cast<int>(program.layout.parameters.size()));
  for (size_t i = begin_of(piece); i < ends_[piece]; ++i) {
    for (const int parameter : program.operations[i].completes) reducer_->GradientReady(parameter);
  }
}

absl::Status CudaStepProgram::Exchange() {
  if (reducer_ == nullptr || !context_.status().ok()) return absl::OkStatus();
  if (optimizer_.clips()) {
    DP_RETURN_IF_ERROR(reducer_->EndBackward());
    context_.Do([this] { return optimizer_.Queue(network_.memory().rounded()); });
    return absl::OkStatus();
  }
  context_.Do([this] { return optimizer_.QueueFactors(); });
  return reducer_->EndBackward([this](const Bucket& bucket) {
    context_.Do([&] { return QueueUpdate(bucket); });
    return absl::OkStatus();
  });
}

// The last bucket may hold the tail, which has no value to update.
absl::Status CudaStepProgram::QueueUpdate(const Bucket& bucket) {
  const int64_t end = std::min(bucket.offset + bucket.size, network_.program().layout.size);
  if (bucket.offset >= end) return absl::OkStatus();
  return optimizer_.QueueUpdate({bucket.offset, end - bucket.offset}, network_.memory().rounded());
}

absl::Status CudaStepProgram::QueueResult(size_t slot) {
  DP_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(&tails_[slot], tail_, kStepTailSize * sizeof(float),
                                          cudaMemcpyDeviceToHost, context_.stream()));
  if (optimizer_.clips()) {
    DP_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(&tails_[slot].gradient_norm, optimizer_.norm(),
                                            sizeof(float), cudaMemcpyDeviceToHost,
                                            context_.stream()));
  }
  return done_[slot].Record(context_.stream());
}

StepForm CudaStepProgram::form() const {
  return {.values = network_.memory().values(),
          .gradients = network_.memory().gradient(0),
          .data = has_data() ? data_->data() : nullptr,
          .batch_size = network_.program().batch_size};
}

}  // namespace dp::engine::cuda
