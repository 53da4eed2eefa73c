#include "worker/engine/device/cuda/layers/cuda_layers.h"

#include "base/check.h"
#include "worker/engine/device/cuda/layers/cuda_layers_planner.h"

namespace dp::engine::cuda {

LayerProgram PlanLayers(absl::Span<const model::CheckedLayer> layers,
                        const LayerProgramOptions& options) {
  DP_CHECK(!layers.empty() && options.network.batch_size > 0);
  return LayerPlanner(layers, options).Plan();
}

int64_t BytesOf(Stored stored, Precision precision) {
  switch (stored) {
    case Stored::kActivation:
      return precision == Precision::kBfloat16 ? 2 : 4;
    case Stored::kFloat:
    case Stored::kInt32:
      return 4;
    case Stored::kInt64:
      return 8;
    case Stored::kByte:
      return 1;
  }
  DP_CHECK(false);
  return 0;
}

ArenaPlan PlanArena(const LayerProgram& program) {
  std::vector<ArenaArray> arrays;
  for (const ProgramArray& array : program.arrays) {
    arrays.push_back({.bytes = array.size * BytesOf(array.stored, program.precision),
                      .first = array.first,
                      .last = array.last});
  }
  for (const ArrayId given : {program.images, program.tokens, program.labels, program.samples}) {
    if (given != kNone) arrays[given].bytes = 0;
  }
  return PlanArena(arrays);
}

}  // namespace dp::engine::cuda
