#include "base/check.h"
#include "worker/engine/device/cuda/kernels/cuda_adamw_update.h"

namespace dp::engine::cuda {

std::vector<uint32_t> DecayBlocks(const AdamWOptions& options, const ParameterLayout& layout) {
  DP_CHECK(layout.size % kDecayBlock == 0);
  const int64_t blocks = layout.size / kDecayBlock;
  std::vector<uint32_t> bits((blocks + 31) / 32);
  for (const Parameter& parameter : layout.parameters) {
    if (!options.decay_all && parameter.shape.size() < 2) continue;
    DP_CHECK(parameter.offset % kDecayBlock == 0);
    const int64_t end = (parameter.offset + parameter.size + kDecayBlock - 1) / kDecayBlock;
    for (int64_t block = parameter.offset / kDecayBlock; block < end; ++block) {
      bits[block / 32] |= uint32_t{1} << (block % 32);
    }
  }
  return bits;
}

}  // namespace dp::engine::cuda
