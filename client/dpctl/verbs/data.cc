#include <memory>

#include "client/dpctl/command_group.h"
#include "client/dpctl/verbs/verbs.h"

namespace dp::ctl {
namespace {

// The verbs on files of samples on this machine: `dpctl data inspect PATH`.
class DataVerbs final : public CommandGroup {
 public:
  DataVerbs() : CommandGroup({MakeDataInspect, MakeDataConvert}) {}

  const char* name() const override { return "data"; }
  const char* summary() const override { return "Describe and convert data sets on this machine"; }
  const char* example() const override {
    return "dpctl data inspect /data/cifar10\n  dpctl data convert table.csv table.npy";
  }
};

}  // namespace

std::unique_ptr<Command> MakeData() { return std::make_unique<DataVerbs>(); }

}  // namespace dp::ctl
