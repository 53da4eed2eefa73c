#include "worker/engine/ddp/bucket_plan.h"

#include "base/check.h"

namespace dp::engine {

std::vector<Bucket> PlanBuckets(absl::Span<const GradientRange> gradients,
                                const BucketPlanOptions& options) {
  std::vector<Bucket> buckets;
  for (int i = 0; i < static_cast<int>(gradients.size()); ++i) {
    const GradientRange& gradient = gradients[i];
    const int64_t end = gradient.offset + gradient.size;
    const int64_t cap = buckets.size() <= 1 ? options.first_bytes : options.cap_bytes;
    const auto element = static_cast<int64_t>(SizeOf(gradient.type));
    if (buckets.empty() || buckets.back().type != gradient.type ||
        (end - buckets.back().offset) * element > cap) {
      buckets.push_back({.first_parameter = i, .offset = gradient.offset, .type = gradient.type});
    }
    Bucket& bucket = buckets.back();
    DP_CHECK(gradient.offset >= bucket.offset + bucket.size);
    bucket.parameters += 1;
    bucket.size = end - bucket.offset;
  }
  return buckets;
}

std::vector<Bucket> PlanBuckets(const ParameterLayout& layout, const BucketPlanOptions& options) {
  std::vector<GradientRange> gradients;
  for (const Parameter& parameter : layout.parameters)
    gradients.push_back({parameter.offset, parameter.size});
  return PlanBuckets(gradients, options);
}

}  // namespace dp::engine
