#pragma once

#include <cstdint>

#include "base/model/host_device.h"

// The windows of a mean pooling along one axis of an image. Pure; devices and the host share it.

namespace dp::model {

struct PoolAxis {
  int64_t in = 0;   // places
  int64_t out = 0;  // windows
  // Window i begins `padding` places before i * stride. With a `kernel` of 0 the windows divide the
  // axis as those of torch.nn.AdaptiveAvgPool2d do, and may overlap by a place.
  int64_t kernel = 0;
  int64_t stride = 1;
  int64_t padding = 0;

  // The places of window i that are within the axis: from Begin(i) to before End(i).
  DP_HOST_DEVICE constexpr int64_t Begin(int64_t i) const {
    if (kernel == 0) return i * in / out;
    const int64_t begin = i * stride - padding;
    return begin < 0 ? 0 : begin;
  }
  DP_HOST_DEVICE constexpr int64_t End(int64_t i) const {
    if (kernel == 0) return ((i + 1) * in + out - 1) / out;
    const int64_t end = i * stride - padding + kernel;
    return end < in ? end : in;
  }
  // The places that the mean of window i divides by. Padding counts, as zeros.
  DP_HOST_DEVICE constexpr int64_t Extent(int64_t i) const {
    return kernel == 0 ? End(i) - Begin(i) : kernel;
  }

  // The windows that contain `place`: from First(place) to Last(place). There are none where First
  // is above Last.
  DP_HOST_DEVICE constexpr int64_t First(int64_t place) const {
    if (kernel == 0) return place * out / in;
    const int64_t begin = place + padding - kernel + 1;
    return begin <= 0 ? 0 : (begin + stride - 1) / stride;
  }
  DP_HOST_DEVICE constexpr int64_t Last(int64_t place) const {
    const int64_t last =
        kernel == 0 ? ((place + 1) * out + in - 1) / in - 1 : (place + padding) / stride;
    return last < out ? last : out - 1;
  }
};

}  // namespace dp::model
