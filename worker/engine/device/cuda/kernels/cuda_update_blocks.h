#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "worker/engine/nn/update_group.h"

namespace dp::engine::cuda {

// The group of a value is that of its block; parameters begin at multiples of a block.
inline constexpr int64_t kUpdateBlock = 16;
// A group's number is one byte.
inline constexpr size_t kUpdateGroupsMax = 256;

// The groups of all values of a layout, as an optimizer's kernels read them.
struct UpdateBlocks {
  std::vector<UpdateGroup> groups;
  std::vector<uint8_t> of_blocks;  // by block: the number of its group
};

// `group_of` gives the group of a parameter. At most kUpdateGroupsMax of them may differ.
UpdateBlocks UpdateBlocksOf(const ParameterLayout& layout,
                            const std::function<UpdateGroup(const Parameter&)>& group_of);

}  // namespace dp::engine::cuda
