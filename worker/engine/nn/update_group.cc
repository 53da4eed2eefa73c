#include "worker/engine/nn/update_group.h"

namespace dp::engine {

std::vector<ValueRange> TrainedRanges(const ParameterLayout& layout) {
  std::vector<ValueRange> ranges;
  bool joins = false;  // the parameter before is in the last range
  for (size_t i = 0; i < layout.parameters.size(); ++i) {
    const bool frozen = layout.parameters[i].options.frozen;
    const ValueRange range = RangeOf(layout, i);
    if (!frozen && joins) ranges.back().size += range.size;
    if (!frozen && !joins) ranges.push_back(range);
    joins = !frozen;
  }
  return ranges;
}

}  // namespace dp::engine
