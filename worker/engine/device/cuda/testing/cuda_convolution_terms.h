#pragma once

#include <cstdint>

#include "worker/engine/device/cuda/libraries/cuda_convolution_graph.h"

namespace dp::engine::cuda {

// The definition of a convolution. Calls each(in, weight, out) with the places of every input and
// weight that are multiplied. `out` is the place of the output that their product is added to. All
// arrays have channels last.
template <typename Each>
void ForEachConvolutionTerm(const ConvolutionShape& s, Each each) {
  const int64_t of_group = s.out / s.groups;
  const int64_t outs = s.batch * s.out_height() * s.out_width() * s.out;
  for (int64_t y = 0; y < outs; ++y) {
    const int64_t o = y % s.out;
    const int64_t column = y / s.out % s.out_width();
    const int64_t row = y / s.out / s.out_width() % s.out_height();
    const int64_t sample = y / s.out / s.out_width() / s.out_height();
    for (int64_t w = 0; w < s.places() * s.group_in(); ++w) {
      const int64_t place = w / s.group_in();
      const int64_t in_row = row * s.row_stride() - s.row_padding() + place / s.kernel * s.dilation;
      const int64_t in_column = column * s.stride - s.padding + place % s.kernel * s.dilation;
      if (in_row < 0 || in_row >= s.height || in_column < 0 || in_column >= s.width) continue;
      const int64_t channel = o / of_group * s.group_in() + w % s.group_in();
      each(((sample * s.height + in_row) * s.width + in_column) * s.in + channel,
           o * s.places() * s.group_in() + w, y);
    }
  }
}

}  // namespace dp::engine::cuda
