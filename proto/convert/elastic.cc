#include "proto/convert/elastic.h"

#include <cstdint>
#include <limits>

#include "absl/strings/numbers.h"
#include "base/node_range.h"
#include "proto/convert/time.h"

namespace dp {

const std::string& NodesField(const v1::JobSpec& spec) {
  return spec.has_train() ? spec.train().nodes() : spec.command().nodes();
}

const std::string& RanksPerNodeField(const v1::JobSpec& spec) {
  return spec.has_train() ? spec.train().nproc_per_node() : spec.command().nproc_per_node();
}

bool IsElastic(const v1::JobSpec& spec) {
  const auto nodes = ParseNodeRange(NodesField(spec));
  return nodes.ok() && nodes->max > nodes->min;
}

std::optional<RankRange> RanksOf(const v1::JobSpec& spec) {
  const auto nodes = ParseNodeRange(NodesField(spec));
  int each = 0;
  if (!nodes.ok() || !absl::SimpleAtoi(RanksPerNodeField(spec), &each)) return std::nullopt;
  const int64_t max = int64_t{nodes->max} * each;
  if (each < 1 || max > std::numeric_limits<int>::max()) return std::nullopt;
  return RankRange{nodes->min * each, static_cast<int>(max)};
}

void FillGrowAfter(v1::JobSpec& spec) {
  if (spec.has_grow_after() || !IsElastic(spec) || !spec.train().has_checkpoint()) return;
  *spec.mutable_grow_after() = ToProto(kGrowAfter);
}

}  // namespace dp
