#include "worker/library/ddp/gradient_scale.h"

#include <cmath>
#include <cstring>
#include <span>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "dp/ddp.h"
#include "worker/library/in_engine.h"

namespace dp::library {
namespace {

using distributed::Bfloat16;
using distributed::DataType;
using distributed::Float16;

// Calls `then` with the elements as an array of their type.
template <typename Then>
void WithFloats(void* data, size_t count, DataType type, const Then& then) {
  switch (type) {
    case DataType::kFloat32:
      return then(std::span(static_cast<float*>(data), count));
    case DataType::kFloat64:
      return then(std::span(static_cast<double*>(data), count));
    case DataType::kFloat16:
      return then(std::span(static_cast<Float16*>(data), count));
    case DataType::kBfloat16:
      return then(std::span(static_cast<Bfloat16*>(data), count));
    default:
      DP_CHECK(engine::IsFloat(TypeInEngine(type)));
  }
}

}  // namespace

double SumOfSquares(const distributed::Elements& elements) {
  double sum = 0;
  WithFloats(
      const_cast<void*>(elements.data), elements.count, elements.type,
      [&]<typename T>(std::span<T> values) {
        for (const T& value : values) {
          const auto exact = static_cast<double>(
              static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(value));
          sum += exact * exact;
        }
      });
  return sum;
}

void Scale(const distributed::MutableElements& elements, double factor) {
  WithFloats(elements.data, elements.count, elements.type, [&]<typename T>(std::span<T> values) {
    if constexpr (std::is_same_v<T, double>) {
      for (T& value : values) value *= factor;
    } else {
      const auto single = static_cast<float>(factor);
      for (T& value : values) value = T(static_cast<float>(value) * single);
    }
  });
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
  double squares = 0;
  for (const MutableElements& gradient : gradients) {
    const engine::DataType type = library::TypeInEngine(gradient.type);
    if (!engine::IsFloat(type)) {
      throw DistError(ErrorKind::kInvalidArgument,
                      absl::StrCat("clip_grad_norm: an array is of ",
                                   std::string(engine::NameOf(type)), "; give arrays of floats"));
    }
    squares += library::SumOfSquares(gradient);
  }
  const double norm = std::sqrt(squares), factor = library::ClippingFactor(norm, max_norm);
  if (factor < 1) {
    for (const MutableElements& gradient : gradients) library::Scale(gradient, factor);
  }
  return norm;
}

}  // namespace dp::distributed
