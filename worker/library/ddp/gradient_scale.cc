#include "worker/library/ddp/gradient_scale.h"

#include <cmath>
#include <cstring>
#include <span>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "dp/ddp.h"
#include "worker/library/gpu/cuda_of_process.h"
#include "worker/library/in_engine.h"

namespace dp::library {
namespace {

void CheckFloats(const distributed::MutableElements& gradient) {
  const auto reject = [](const std::string& why) {
    throw distributed::DistError(distributed::ErrorKind::kInvalidArgument,
                                 absl::StrCat("clip_grad_norm: an array ", why));
  };
  const engine::DataType type = TypeInEngine(gradient.type);
  if (!engine::IsFloat(type))
    reject(absl::StrCat("is of ", engine::NameOf(type), "; give arrays of floats"));
  if (gradient.data == nullptr && gradient.count > 0)
    reject(absl::StrCat("of ", gradient.count, " elements has null for its memory; give memory"));
}

}  // namespace

double ClipByNorm(GroupMemory& memory, absl::Span<const distributed::MutableElements> gradients,
                  double max_norm) {
  for (const distributed::MutableElements& gradient : gradients) CheckFloats(gradient);
  const std::vector<distributed::Elements> read(gradients.begin(), gradients.end());
  const double norm = std::sqrt(memory.SumOfSquares(read));
  const double factor = ClippingFactor(norm, max_norm);
  if (IsScaling(factor)) {
    for (const distributed::MutableElements& gradient : gradients) memory.Scale(gradient, factor);
  }
  return norm;
}

double ClippingFactor(double norm, double max_norm) {
  // PyTorch's: keeps the quotient finite where all gradients are zero.
  constexpr double kSmallest = 1e-6;
  if (max_norm > 0) return max_norm / (norm + kSmallest);
  throw distributed::DistError(
      distributed::ErrorKind::kInvalidArgument,
      absl::StrCat("clip_grad_norm: max_norm is ", max_norm, "; give more than 0"));
}

uint64_t ChecksumOf(absl::Span<const uint8_t> bytes) {
  constexpr uint64_t kBasis = 0xcbf29ce484222325, kPrime = 0x100000001b3;
  DP_CHECK(bytes.size() % sizeof(uint64_t) == 0);
  uint64_t sum = kBasis;
  for (size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, sizeof(word));
    sum = (sum ^ word) * kPrime;
  }
  return sum;
}

}  // namespace dp::library

namespace dp::distributed {

double clip_grad_norm(std::span<const MutableElements> gradients, double max_norm) {
  for (const MutableElements& gradient : gradients) {
    if (!library::OrThrow(library::GpuOfMemory(gradient.data), library::ErrorSource::kOperation,
                          "clip_grad_norm"))
      continue;
    throw DistError(ErrorKind::kInvalidArgument,
                    "clip_grad_norm of a GPU's memory; call clip_grad_norm of the "
                    "DistributedDataParallel, which knows the stream");
  }
  library::GroupMemory host(std::nullopt, "clip_grad_norm");
  return library::ClipByNorm(host, {gradients.data(), gradients.size()}, max_norm);
}

}  // namespace dp::distributed
