#include <memory>

#include "client/dpctl/command_group.h"
#include "client/dpctl/verbs/verbs.h"

namespace dp::ctl {
namespace {

// The verbs on weights: `dpctl weights diff A B`.
class WeightsVerbs final : public CommandGroup {
 public:
  WeightsVerbs() : CommandGroup({MakeWeightsDiff}) {}

  const char* name() const override { return "weights"; }
  const char* summary() const override { return "Compare weights of models"; }
  const char* example() const override {
    return "dpctl weights diff before.safetensors after.safetensors";
  }
  bool NeedsCoordinator() const override { return false; }
};

}  // namespace

std::unique_ptr<Command> MakeWeights() { return std::make_unique<WeightsVerbs>(); }

}  // namespace dp::ctl
