#include "worker/engine/device/cuda/network/cuda_network_memory.h"

#include "base/check.h"
#include "base/status.h"
#include "worker/engine/device/cuda/random/cuda_fill.h"
#include "worker/engine/device/cuda/runtime/cuda_status.h"

namespace dp::engine::cuda {
namespace {

constexpr uint64_t kArraysSeed = 1, kImagesSeed = 2;

}  // namespace

static_assert(sizeof(StepInput) <= kStepInputBytes);

absl::StatusOr<NetworkMemory> NetworkMemory::Allocate(const LayerProgram& program,
                                                      absl::Span<const float> values,
                                                      absl::Span<float> gradients,
                                                      cudaStream_t stream) {
  DP_CHECK(static_cast<int64_t>(values.size()) == program.layout.size);
  DP_CHECK(gradients.size() == values.size());
  NetworkMemory memory;
  memory.program_ = &program;
  memory.values_ = values;
  memory.gradients_ = gradients;
  memory.place_ = PlanBatchBlock(program);
  DP_ASSIGN_OR_RETURN(memory.arena_, Arena::Allocate(PlanArena(program)));
  DP_ASSIGN_OR_RETURN(memory.batch_, DeviceBuffer::Allocate(memory.place_.bytes));
  DP_ASSIGN_OR_RETURN(memory.sums_, DeviceBuffer::Allocate(sizeof(LossSums)));
  DP_RETURN_IF_ERROR(memory.batch_.Zero(stream));
  DP_RETURN_IF_ERROR(memory.sums_.Zero(stream));
  if (program.precision != Precision::kBfloat16) return memory;
  const int64_t size = program.layout.size + program.values_padding;
  DP_ASSIGN_OR_RETURN(memory.rounded_,
                      DeviceBuffer::Allocate(size * static_cast<int64_t>(sizeof(bf16))));
  DP_RETURN_IF_ERROR(memory.rounded_.Zero(stream));
  return memory;
}

absl::Status NetworkMemory::FillAtRandom(cudaStream_t stream) {
  return program_->precision == Precision::kBfloat16 ? FillArraysOf<bf16>(stream)
                                                     : FillArraysOf<float>(stream);
}

// Arrays of another type than T hold such numbers, too: the upper half of a float is a bf16.
template <typename T>
absl::Status NetworkMemory::FillArraysOf(cudaStream_t stream) {
  const auto count = static_cast<int64_t>(arena_.bytes() / sizeof(T));
  DP_CUDA_RETURN_IF_ERROR(FillNormal(stream, kArraysSeed, count, static_cast<T*>(arena_.data())));
  if (program_->images == kNone) return absl::OkStatus();
  const auto images = static_cast<int64_t>((place_.bytes - place_.input) / sizeof(float));
  DP_CUDA_RETURN_IF_ERROR(FillNormal(stream, kImagesSeed, images, array<float>(program_->images)));
  return absl::OkStatus();
}

void* NetworkMemory::Find(ArrayId id) const {
  if (id == kNone) return nullptr;
  if (id == program_->labels || id == program_->targets) return batch() + place_.labels;
  if (id == program_->samples) return batch() + place_.samples;
  if (id == program_->images || id == program_->tokens) return batch() + place_.input;
  return arena_.at<char>(id);
}

const float* NetworkMemory::value(int parameter) const {
  if (parameter == kNone) return nullptr;
  return values_.data() + program_->layout.parameters[parameter].offset;
}

float* NetworkMemory::gradient(int parameter) const {
  if (parameter == kNone) return nullptr;
  return gradients_.data() + program_->layout.parameters[parameter].offset;
}

void* NetworkMemory::FindWeight(int parameter) const {
  if (parameter == kNone) return nullptr;
  if (program_->precision != Precision::kBfloat16) return const_cast<float*>(value(parameter));
  return rounded() + program_->layout.parameters[parameter].offset;
}

}  // namespace dp::engine::cuda
