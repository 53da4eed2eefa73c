#pragma once

#include <cstdint>
#include <vector>

#include "worker/engine/nn/parameter.h"

namespace dp::engine {

// A bucket is one all-reduce: a contiguous range of the flat gradient array, with consecutive
// parameters of the layout and the gaps between them. Gradients are never copied into a bucket.
struct Bucket {
  int first_parameter = 0;
  int parameters = 0;  // how many
  int64_t offset = 0;  // in floats
  int64_t size = 0;    // in floats
};

struct BucketPlanOptions {
  // The first bucket is small, so that communication begins soon after backward does.
  int64_t first_bytes = int64_t{1} << 20;
  int64_t cap_bytes = int64_t{25} << 20;
};

// Assigns the parameters to buckets in layout order, which is the order of readiness. A bucket is
// closed before the parameter that would exceed its cap; a parameter above the cap is alone in its
// bucket. Pure; all ranks of a job must use the same options.
std::vector<Bucket> PlanBuckets(const ParameterLayout& layout,
                                const BucketPlanOptions& options = {});

}  // namespace dp::engine
