#include "proto/convert/store_defaults.h"

#include "proto/convert/elastic.h"

namespace dp {
namespace {

// Whether every generation has exactly one rank. False while nprocPerNode is a word (gpu, cpu,
// auto): it may stand for several.
bool HasOneRank(const v1::JobSpec& spec) {
  if (const auto ranks = RanksOf(spec); ranks.has_value()) return ranks->max == 1;
  return RanksPerNodeField(spec).empty() && NodesField(spec).empty() && spec.ranks() == 1;
}

}  // namespace

bool MeetsAtStore(const v1::CommandSpec& command) {
  return command.contract() == "torchrun" || command.contract() == "launch";
}

std::string DefaultStore(const v1::JobSpec& spec) { return HasOneRank(spec) ? "program" : "relay"; }

}  // namespace dp
