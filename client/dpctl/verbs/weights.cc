#include <memory>

#include "client/dpctl/command_group.h"
#include "client/dpctl/verbs/verbs.h"

namespace dp::ctl {
namespace {

// The verbs on weights, those that the coordinator keeps and those in files: `dpctl weights ls`.
class WeightsVerbs final : public CommandGroup {
 public:
  WeightsVerbs()
      : CommandGroup(
            {MakeWeightsLs, MakeWeightsPull, MakeWeightsPush, MakeWeightsRm, MakeWeightsDiff}) {}

  const char* name() const override { return "weights"; }
  const char* summary() const override { return "Keep, fetch and compare weights of models"; }
  const char* example() const override {
    return "dpctl weights pull 7 model.safetensors\n"
           "  dpctl weights diff before.safetensors after.safetensors";
  }
};

}  // namespace

std::unique_ptr<Command> MakeWeights() { return std::make_unique<WeightsVerbs>(); }

}  // namespace dp::ctl
