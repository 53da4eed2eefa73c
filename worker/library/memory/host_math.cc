#include "worker/library/memory/host_math.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "worker/engine/collectives/reduce/convert.h"
#include "worker/engine/collectives/reduce/half_floats.h"
#include "worker/engine/collectives/reduce/ordered_reduce.h"
#include "worker/engine/nn/batch_statistics.h"

namespace dp::library {
namespace {

// Calls `then` with the elements as an array of their type.
template <typename Then>
void WithFloats(const engine::Elements& elements, const Then& then) {
  const auto as = [&]<typename T>(T) {
    then(std::span(reinterpret_cast<T*>(elements.bytes.data()), elements.count()));
  };
  switch (elements.type) {
    case engine::DataType::kFloat32:
      return as(float{});
    case engine::DataType::kFloat64:
      return as(double{});
    case engine::DataType::kFloat16:
      return as(engine::Float16{});
    case engine::DataType::kBfloat16:
      return as(engine::Bfloat16{});
    default:
      DP_CHECK(engine::IsFloat(elements.type));
  }
}

float Single(float value) { return value; }
float Single(engine::Float16 value) { return engine::ToFloat(value); }
float Single(engine::Bfloat16 value) { return engine::ToFloat(value); }
void Set(float value, float& to) { to = value; }
void Set(float value, engine::Float16& to) { to = engine::ToFloat16(value); }
void Set(float value, engine::Bfloat16& to) { to = engine::ToBfloat16(value); }

template <typename T>
double SquareOf(T value) {
  double exact = 0;
  if constexpr (std::is_same_v<T, double>) {
    exact = value;
  } else {
    exact = static_cast<double>(Single(value));
  }
  return exact * exact;
}

engine::ChannelStatistics By(const BatchNormState& state) {
  return {.count = *state.count, .mean = state.mean, .inverse_deviation = state.inverse_deviation};
}

}  // namespace

absl::Status HostMath::Convert(engine::ConstElements from, engine::Elements to) {
  engine::Convert(from, to);
  return absl::OkStatus();
}

absl::Status HostMath::Scale(engine::Elements values, double factor) {
  WithFloats(values, [&]<typename T>(std::span<T> array) {
    if constexpr (std::is_same_v<T, double>) {
      for (T& value : array) value *= factor;
    } else {
      const auto single = static_cast<float>(factor);
      for (T& value : array) Set(Single(value) * single, value);
    }
  });
  return absl::OkStatus();
}

absl::Status HostMath::SumSquares(engine::ConstElements values, absl::Span<double> sums) {
  // The bytes are only read.
  const engine::Elements elements(values.type,
                                  {const_cast<uint8_t*>(values.bytes.data()), values.bytes.size()});
  WithFloats(elements, [&]<typename T>(std::span<T> array) {
    for (size_t chunk = 0; chunk < sums.size(); ++chunk) {
      const size_t begin = std::min(chunk * kSumChunk, array.size());
      sums[chunk] = 0;
      for (const T& value : array.subspan(begin, std::min(kSumChunk, array.size() - begin)))
        sums[chunk] += SquareOf(value);
    }
  });
  return absl::OkStatus();
}

absl::Status HostMath::Sum(absl::Span<const uint8_t* const> arrays, engine::Elements sum) {
  const std::vector<const void*> inputs(arrays.begin(), arrays.end());
  engine::ReduceInOrder(inputs, sum.type, sum.count(), engine::ReduceOp::kSum, sum.bytes.data());
  return absl::OkStatus();
}

absl::Status HostMath::SumUp(const ChannelShape& shape, const float* values, double*,
                             double* packed) {
  const std::vector<double> mine =
      engine::SumUp({values, shape.size()}, shape.samples, shape.channels).Packed();
  std::copy(mine.begin(), mine.end(), packed);
  return absl::OkStatus();
}

absl::Status HostMath::Combine(size_t channels, size_t ranks, const double* packed,
                               const BatchNormOptions& options, const BatchNormState& state,
                               float* running_mean, float* running_var) {
  const engine::BatchStatistics batch =
      engine::Combine({packed, ranks * engine::BatchStatistics::PackedSize(channels)}, channels);
  *state.count = batch.count;
  const auto move = [&](float& running, double to) {
    running = static_cast<float>((1 - options.share) * running + options.share * to);
  };
  for (size_t c = 0; c < channels; ++c) {
    state.mean[c] = batch.mean[c];
    state.inverse_deviation[c] = 1 / std::sqrt(batch.squares[c] / batch.count + options.eps);
    move(running_mean[c], batch.mean[c]);
    move(running_var[c], batch.squares[c] / (batch.count - 1));
  }
  return absl::OkStatus();
}

absl::Status HostMath::TakeRunning(size_t channels, const float* running_mean,
                                   const float* running_var, double eps,
                                   const BatchNormState& state) {
  for (size_t c = 0; c < channels; ++c) {
    state.mean[c] = running_mean[c];
    state.inverse_deviation[c] = 1 / std::sqrt(running_var[c] + eps);
  }
  return absl::OkStatus();
}

absl::Status HostMath::Normalize(const ChannelShape& shape, const float* in, const float* weight,
                                 const float* bias, const BatchNormState& state, float* out) {
  engine::NormalizeChannels(shape, in, weight, bias, By(state), out);
  return absl::OkStatus();
}

absl::Status HostMath::SumGradients(const ChannelShape& shape, const float* in,
                                    const float* out_grad, const BatchNormState& state, double*,
                                    double* sums) {
  engine::SumChannelGradients(shape, in, out_grad, By(state), sums);
  return absl::OkStatus();
}

absl::Status HostMath::AddGradients(size_t channels, const double* sums, float* weight_grad,
                                    float* bias_grad) {
  for (size_t c = 0; c < channels; ++c) {
    bias_grad[c] += static_cast<float>(sums[c]);
    weight_grad[c] += static_cast<float>(sums[channels + c]);
  }
  return absl::OkStatus();
}

absl::Status HostMath::InputGradient(const ChannelShape& shape, const float* in,
                                     const float* out_grad, const float* weight,
                                     const BatchNormState& state, const double* sums,
                                     float* in_grad) {
  engine::ChannelInputGradient(shape, in, out_grad, weight, By(state), sums, in_grad);
  return absl::OkStatus();
}

}  // namespace dp::library
