#include "worker/engine/device/cuda/network/cuda_data_windows.h"

#include "base/check.h"
#include "base/overloaded.h"

namespace dp::engine::cuda {

std::vector<int64_t> WindowsOf(const StoredTokens& stored, int64_t context, int64_t samples) {
  std::vector<int64_t> windows;
  windows.reserve(samples);
  int64_t begin = 0;  // of the file
  for (size_t i = 0; i < stored.files.size(); ++i) {
    const StoredTokens::File& file = stored.files[i];
    const bool last = i + 1 == stored.files.size();
    const int64_t end = last ? samples : stored.files[i + 1].first_sample;
    DP_CHECK(file.first_sample == static_cast<int64_t>(windows.size()));
    for (int64_t k = 0; k < end - file.first_sample; ++k) windows.push_back(begin + k * context);
    begin += static_cast<int64_t>(file.tokens.size());
  }
  DP_CHECK(static_cast<int64_t>(windows.size()) == samples);
  return windows;
}

int64_t StoredBytes(const Storage& storage, int64_t samples) {
  return std::visit(Overloaded{
                        [](std::monostate) { return int64_t{0}; },
                        [](const StoredImages& stored) {
                          return static_cast<int64_t>(stored.images.size() + stored.labels.size());
                        },
                        [&](const StoredTokens& stored) {
                          int64_t bytes = samples * static_cast<int64_t>(sizeof(int64_t));
                          for (const StoredTokens::File& file : stored.files) {
                            bytes += static_cast<int64_t>(file.tokens.size() * sizeof(uint16_t));
                          }
                          return bytes;
                        },
                    },
                    storage);
}

}  // namespace dp::engine::cuda
