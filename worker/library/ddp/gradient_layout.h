#pragma once

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "worker/engine/ddp/bucket_plan.h"

namespace dp::library {

// The count and type of a gradient.
struct GradientSize {
  size_t count = 0;
  engine::DataType type = engine::DataType::kFloat32;

  size_t bytes() const { return count * engine::SizeOf(type); }
};

// Where the gradients of a module lie in one array, and how they are dealt to buckets. A place is
// the position of a gradient in the array: first those that are ready first. Gradients start at
// multiples of a cache line, so the array has the same size in any order.
struct GradientLayout {
  std::vector<size_t> parameters;                // by place
  std::vector<size_t> places;                    // by parameter
  std::vector<engine::GradientRange> gradients;  // by place
  std::vector<engine::Bucket> buckets;           // of places
  size_t bytes = 0;

  // From the beginning of the array.
  size_t offset_bytes(size_t parameter) const;
};

// Lays out gradients, given by parameter, in the order `ready` of their parameters. Gradients of
// one type lie together, because a bucket has one type. Pure; all ranks must give the same.
GradientLayout LayOutGradients(absl::Span<const GradientSize> gradients,
                               absl::Span<const size_t> ready,
                               const engine::BucketPlanOptions& options);

}  // namespace dp::library
