#include "base/data/image_resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace dp::data {
namespace {

// The pixels of one axis that a value of the result is made of.
struct AxisTaps {
  int64_t first = 0;
  std::vector<float> weights;
};

// A triangle around each place, as wide as the step between places, at least a pixel on each side.
std::vector<AxisTaps> TapsOf(int64_t pixels, double begin, double length, int64_t places) {
  const double step = length / static_cast<double>(places);
  const double reach = std::max(step, 1.0);
  std::vector<AxisTaps> all;
  for (int64_t place = 0; place < places; ++place) {
    const double center = begin + (static_cast<double>(place) + 0.5) * step;
    const int64_t first =
        std::clamp<int64_t>(static_cast<int64_t>(std::floor(center - reach + 0.5)), 0, pixels - 1);
    const int64_t last = std::clamp<int64_t>(static_cast<int64_t>(std::floor(center + reach + 0.5)),
                                             first + 1, pixels);
    AxisTaps taps{.first = first};
    double sum = 0;
    for (int64_t pixel = first; pixel < last; ++pixel) {
      const double away = std::abs(static_cast<double>(pixel) + 0.5 - center) / reach;
      const double weight = std::max(0.0, 1 - away);
      taps.weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    if (sum <= 0) {
      taps.weights.assign(1, 1.0f);
      sum = 1;
    }
    for (float& weight : taps.weights) weight = static_cast<float>(weight / sum);
    all.push_back(std::move(taps));
  }
  return all;
}

}  // namespace

ImageBox MiddleOf(const Image& image, int64_t rows, int64_t columns) {
  const auto image_rows = static_cast<double>(image.rows);
  const auto image_columns = static_cast<double>(image.columns);
  const double scale = std::min(image_rows / static_cast<double>(rows),
                                image_columns / static_cast<double>(columns));
  ImageBox box{.rows = static_cast<double>(rows) * scale,
               .columns = static_cast<double>(columns) * scale};
  box.row = (image_rows - box.rows) / 2;
  box.column = (image_columns - box.columns) / 2;
  return box;
}

void ResizeInto(const Image& image, const ImageBox& box, int64_t rows, int64_t columns,
                absl::Span<float> to) {
  const int64_t channels = image.channels;
  DP_CHECK(static_cast<int64_t>(to.size()) >= channels * rows * columns);
  const std::vector<AxisTaps> across = TapsOf(image.columns, box.column, box.columns, columns);
  const std::vector<AxisTaps> down = TapsOf(image.rows, box.row, box.rows, rows);
  // Rows of the image that are needed, resized to `columns`, channels side by side.
  const int64_t first = down.front().first;
  const int64_t last = down.back().first + static_cast<int64_t>(down.back().weights.size());
  std::vector<float> narrow(static_cast<size_t>((last - first) * columns * channels));
  for (int64_t row = first; row < last; ++row) {
    const uint8_t* const pixels = image.bytes.data() + row * image.columns * channels;
    float* out = narrow.data() + (row - first) * columns * channels;
    for (const AxisTaps& taps : across) {
      for (int64_t channel = 0; channel < channels; ++channel) {
        const uint8_t* pixel = pixels + taps.first * channels + channel;
        float sum = 0;
        for (const float weight : taps.weights) {
          sum += weight * static_cast<float>(*pixel);
          pixel += channels;
        }
        *out++ = sum;
      }
    }
  }
  std::vector<float> line(static_cast<size_t>(columns * channels));
  for (int64_t row = 0; row < rows; ++row) {
    std::fill(line.begin(), line.end(), 0.0f);
    const float* from = narrow.data() + (down[row].first - first) * columns * channels;
    for (const float weight : down[row].weights) {
      for (float& value : line) value += weight * *from++;
    }
    for (int64_t channel = 0; channel < channels; ++channel) {
      float* const out = to.data() + (channel * rows + row) * columns;
      for (int64_t column = 0; column < columns; ++column) {
        out[column] = line[column * channels + channel];
      }
    }
  }
}

}  // namespace dp::data
