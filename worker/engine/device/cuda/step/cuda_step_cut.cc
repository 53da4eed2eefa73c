#include "worker/engine/device/cuda/step/cuda_step_cut.h"

#include <algorithm>

namespace dp::engine::cuda {
namespace {

// For each parameter, the end of the operation that completes it.
std::vector<size_t> CompleteAt(const LayerProgram& program) {
  const size_t loss_end = static_cast<size_t>(program.loss) + 1;
  std::vector<size_t> ends(program.layout.parameters.size() + 1, loss_end);
  for (size_t i = 0; i < program.operations.size(); ++i) {
    for (const int parameter : program.operations[i].completes) ends[parameter] = i + 1;
  }
  return ends;
}

}  // namespace

std::vector<size_t> CutStep(const LayerProgram& program, absl::Span<const Bucket> buckets) {
  const std::vector<size_t> complete_at = CompleteAt(program);
  std::vector<size_t> ends;
  size_t end = 0;
  for (const Bucket& bucket : buckets) {
    // Buckets are launched in their order, so none ends before an earlier one.
    const auto first = complete_at.begin() + bucket.first_parameter;
    end = std::max(end, *std::max_element(first, first + bucket.parameters));
    if (ends.empty() || ends.back() < end) ends.push_back(end);
  }
  const size_t all = program.operations.size();
  if (ends.empty() || ends.back() < all) ends.push_back(all);
  return ends;
}

}  // namespace dp::engine::cuda
