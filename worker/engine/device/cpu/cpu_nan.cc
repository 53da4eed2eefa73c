#include "worker/engine/device/cpu/cpu_nan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace dp::engine {
namespace {

// Compilers turn loops of this fixed length over plain pointers into vector instructions.
constexpr size_t kLanes = 16;

float PositiveOrNan(float x) { return x <= 0.0f ? 0.0f : x; }

template <typename Argument>
void WriteRelu(const Argument& argument, absl::Span<float> out) {
  float* to = out.data();
  size_t i = 0;
  for (; i + kLanes <= out.size(); i += kLanes) {
    float lanes[kLanes];
    for (size_t k = 0; k < kLanes; ++k) lanes[k] = PositiveOrNan(argument(i + k));
    std::copy_n(lanes, kLanes, to + i);
  }
  for (; i < out.size(); ++i) to[i] = PositiveOrNan(argument(i));
}

// As integers, magnitudes have the same order, and a NaN is above all numbers.
int32_t MagnitudeBits(float value) { return std::bit_cast<int32_t>(value) & 0x7fffffff; }

// Where an element of an image lies in memory of any format.
class ImagePlaces {
 public:
  explicit ImagePlaces(const dnnl::memory::desc& desc)
      : blocking_(desc.data.format_desc.blocking) {}

  int64_t Of(std::array<int64_t, 4> position) const {
    int64_t place = 0;
    int64_t block_stride = 1;
    for (int i = blocking_.inner_nblks; i-- > 0;) {
      int64_t& along = position[blocking_.inner_idxs[i]];
      place += along % blocking_.inner_blks[i] * block_stride;
      along /= blocking_.inner_blks[i];
      block_stride *= blocking_.inner_blks[i];
    }
    for (size_t d = 0; d < position.size(); ++d) place += position[d] * blocking_.strides[d];
    return place;
  }

 private:
  const dnnl_blocking_desc_t blocking_;
};

}  // namespace

void ReluOf(absl::Span<const float> in, absl::Span<float> out) {
  const float* from = in.data();
  WriteRelu([from](size_t i) { return from[i]; }, out);
}

void ReluOfSum(const float* a, const float* b, absl::Span<float> out) {
  WriteRelu([a, b](size_t i) { return a[i] + b[i]; }, out);
}

void PassNan(absl::Span<const float> in, absl::Span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = std::isnan(in[i]) ? in[i] : out[i];
}

float LargestMagnitude(absl::Span<const float> values) {
  const float* from = values.data();
  int32_t largest[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t k = 0; k < kLanes; ++k) {
      const int32_t bits = MagnitudeBits(from[i + k]);
      largest[k] = largest[k] > bits ? largest[k] : bits;
    }
  }
  for (; i < values.size(); ++i) largest[0] = std::max(largest[0], MagnitudeBits(from[i]));
  return std::bit_cast<float>(*std::max_element(largest, largest + kLanes));
}

void PassNanOfWindows(const dnnl::memory& in, const PoolWindows& windows, const dnnl::memory& out) {
  const ImagePlaces in_places(in.get_desc()), out_places(out.get_desc());
  const dnnl::memory::dims size = out.get_desc().dims();
  const float* from = Floats(in);
  float* to = Floats(out);
  const dnnl::memory::dims in_size = in.get_desc().dims();
  // A window may begin or end in the padding.
  const auto has_nan = [&](int64_t n, int64_t c, int64_t row, int64_t column) {
    const int64_t y_end = std::min(row + windows.kernel, in_size[2]);
    const int64_t x_end = std::min(column + windows.kernel, in_size[3]);
    for (int64_t y = std::max<int64_t>(row, 0); y < y_end; ++y) {
      for (int64_t x = std::max<int64_t>(column, 0); x < x_end; ++x) {
        if (std::isnan(from[in_places.Of({n, c, y, x})])) return true;
      }
    }
    return false;
  };
  const int64_t rows = size[2], columns = size[3];
  for (int64_t i = 0; i < size[0] * size[1] * rows * columns; ++i) {
    const int64_t x = i % columns, y = i / columns % rows;
    const int64_t c = i / (columns * rows) % size[1], n = i / (columns * rows * size[1]);
    const int64_t row = y * windows.stride - windows.padding;
    const int64_t column = x * windows.stride - windows.padding;
    if (!has_nan(n, c, row, column)) continue;
    to[out_places.Of({n, c, y, x})] = std::numeric_limits<float>::quiet_NaN();
  }
}

}  // namespace dp::engine
