#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "worker/engine/collectives/reduce/elements.h"
#include "worker/engine/nn/parameter.h"

namespace dp::engine {

// The gradient of one parameter in the flat gradient array, in elements of its type.
struct GradientRange {
  int64_t offset = 0;
  int64_t size = 0;
  DataType type = DataType::kFloat32;
};

// A bucket is one all-reduce: a contiguous range of the flat gradient array. It has consecutive
// parameters of the layout, all of one type, and the gaps between them. Gradients are never copied
// into a bucket.
struct Bucket {
  int first_parameter = 0;
  int parameters = 0;  // how many
  int64_t offset = 0;  // in elements of the type
  int64_t size = 0;    // in elements of the type
  DataType type = DataType::kFloat32;
};

struct BucketPlanOptions {
  // The first bucket is small, so that communication begins soon after backward does.
  int64_t first_bytes = int64_t{1} << 20;
  int64_t cap_bytes = int64_t{25} << 20;
};

// Assigns gradients to buckets in the given order, which is that of readiness. A bucket is closed
// before a gradient that would exceed its cap, and before one of another type. A gradient above the
// cap is alone in its bucket. Pure; all ranks of a job must use the same options.
std::vector<Bucket> PlanBuckets(absl::Span<const GradientRange> gradients,
                                const BucketPlanOptions& options = {});
// The same for the parameters of a layout, in its order.
std::vector<Bucket> PlanBuckets(const ParameterLayout& layout,
                                const BucketPlanOptions& options = {});

}  // namespace dp::engine
