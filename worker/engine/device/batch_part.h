#pragma once

#include <cstdint>
#include <vector>

#include "worker/engine/device/device.h"

namespace dp::engine {

// Some rows of a batch as a batch of their own. Not thread-safe.
class BatchPart {
 public:
  // `rows` rows of `whole` from row `first` on. The first `count` are samples. Rows behind the end
  // of `whole` are zeros. Borrows from `whole`, and from this until the next call.
  Batch Of(const Batch& whole, int first, int count, int rows);

 private:
  // The part, if `whole` ends before it.
  std::vector<float> images_;
  std::vector<int32_t> labels_;
  std::vector<int64_t> samples_;
  std::vector<float> targets_;
};

}  // namespace dp::engine
