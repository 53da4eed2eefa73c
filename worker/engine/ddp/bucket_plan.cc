#include "worker/engine/ddp/bucket_plan.h"

#include "base/check.h"

namespace dp::engine {

std::vector<Bucket> PlanBuckets(const ParameterLayout& layout, const BucketPlanOptions& options) {
  constexpr int64_t kFloatBytes = sizeof(float);
  std::vector<Bucket> buckets;
  for (int i = 0; i < static_cast<int>(layout.parameters.size()); ++i) {
    const Parameter& parameter = layout.parameters[i];
    const int64_t end = parameter.offset + parameter.size;
    const int64_t cap = buckets.size() <= 1 ? options.first_bytes : options.cap_bytes;
    if (buckets.empty() || (end - buckets.back().offset) * kFloatBytes > cap)
      buckets.push_back({.first_parameter = i, .offset = parameter.offset});
    Bucket& bucket = buckets.back();
    DP_CHECK(parameter.offset >= bucket.offset + bucket.size);
    bucket.parameters += 1;
    bucket.size = end - bucket.offset;
  }
  return buckets;
}

}  // namespace dp::engine
