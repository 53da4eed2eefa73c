#include "worker/library/ddp/gradient_layout.h"

#include <algorithm>

#include "base/check.h"

namespace dp::library {
namespace {

constexpr size_t kCacheLine = 64;

// `ready`, with the types one after the other, in the order of their first gradient.
std::vector<size_t> ByType(absl::Span<const GradientSize> gradients,
                           absl::Span<const size_t> ready) {
  std::vector<engine::DataType> types;
  for (const size_t parameter : ready) {
    if (std::find(types.begin(), types.end(), gradients[parameter].type) == types.end())
      types.push_back(gradients[parameter].type);
  }
  std::vector<size_t> sorted;
  for (const engine::DataType type : types) {
    std::copy_if(ready.begin(), ready.end(), std::back_inserter(sorted),
                 [&](size_t parameter) { return gradients[parameter].type == type; });
  }
  return sorted;
}

}  // namespace

size_t GradientLayout::offset_bytes(size_t parameter) const {
  const engine::GradientRange& gradient = gradients[places[parameter]];
  return static_cast<size_t>(gradient.offset) * engine::SizeOf(gradient.type);
}

GradientLayout LayOutGradients(absl::Span<const GradientSize> gradients,
                               absl::Span<const size_t> ready,
                               const engine::BucketPlanOptions& options) {
  DP_CHECK(ready.size() == gradients.size());
  GradientLayout layout;
  layout.parameters = ByType(gradients, ready);
  layout.places.resize(gradients.size());
  for (size_t place = 0; place < gradients.size(); ++place) {
    const size_t parameter = layout.parameters[place];
    const GradientSize& size = gradients[parameter];
    layout.places[parameter] = place;
    layout.gradients.push_back({static_cast<int64_t>(layout.bytes / engine::SizeOf(size.type)),
                                static_cast<int64_t>(size.count), size.type});
    layout.bytes += (size.bytes() + kCacheLine - 1) / kCacheLine * kCacheLine;
  }
  layout.buckets = engine::PlanBuckets(layout.gradients, options);
  return layout;
}

}  // namespace dp::library
