#include "worker/engine/device/cuda/kernels/cuda_update_blocks.h"

#include <algorithm>

#include "base/check.h"

namespace dp::engine::cuda {

UpdateBlocks UpdateBlocksOf(const ParameterLayout& layout,
                            const std::function<UpdateGroup(const Parameter&)>& group_of) {
  DP_CHECK(layout.size % kUpdateBlock == 0);
  UpdateBlocks blocks;
  blocks.of_blocks.resize(layout.size / kUpdateBlock);
  for (size_t i = 0; i < layout.parameters.size(); ++i) {
    const UpdateGroup group = group_of(layout.parameters[i]);
    auto& groups = blocks.groups;
    const auto found = std::find(groups.begin(), groups.end(), group);
    const size_t number = found - groups.begin();
    if (found == groups.end()) groups.push_back(group);
    DP_CHECK(number < kUpdateGroupsMax);
    const ValueRange range = RangeOf(layout, i);
    DP_CHECK(range.first % kUpdateBlock == 0);
    std::fill_n(blocks.of_blocks.begin() + range.first / kUpdateBlock, range.size / kUpdateBlock,
                static_cast<uint8_t>(number));
  }
  return blocks;
}

}  // namespace dp::engine::cuda
