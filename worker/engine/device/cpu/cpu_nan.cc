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
  float* to = out.data();
  size_t i = 0;
  for (; i + kLanes <= in.size(); i += kLanes) {
    float lanes[kLanes];
    for (size_t k = 0; k < kLanes; ++k) lanes[k] = PositiveOrNan(from[i + k]);
    std::copy_n(lanes, kLanes, to + i);
  }
  for (; i < in.size(); ++i) to[i] = PositiveOrNan(from[i]);
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
  const auto has_nan = [&](int64_t n, int64_t c, int64_t row, int64_t column) {
    for (int64_t y = row; y < row + windows.kernel; ++y) {
      for (int64_t x = column; x < column + windows.kernel; ++x) {
        if (std::isnan(from[in_places.Of({n, c, y, x})])) return true;
      }
    }
    return false;
  };
  const int64_t rows = size[2], columns = size[3];
  for (int64_t i = 0; i < size[0] * size[1] * rows * columns; ++i) {
    const int64_t x = i % columns, y = i / columns % rows;
    const int64_t c = i / (columns * rows) % size[1], n = i / (columns * rows * size[1]);
    if (!has_nan(n, c, y * windows.stride, x * windows.stride)) continue;
    to[out_places.Of({n, c, y, x})] = std::numeric_limits<float>::quiet_NaN();
  }
}

}  // namespace dp::engine
