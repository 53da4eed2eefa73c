#include <memory>

#include "client/dpctl/command_group.h"
#include "client/dpctl/verbs/verbs.h"

namespace dp::ctl {
namespace {

// The verbs on a job's store: `dpctl store ls 7`.
class StoreVerbs final : public CommandGroup {
 public:
  StoreVerbs()
      : CommandGroup({MakeStoreLs, MakeStoreGet, MakeStoreSet, MakeStoreWatch, MakeStoreWaiters}) {}

  const char* name() const override { return "store"; }
  const char* summary() const override { return "Look into a job's store, and who waits in it"; }
  const char* example() const override { return "dpctl store ls 7\n  dpctl store waiters 7"; }
  bool TakesWordsBehindDashes() const override { return true; }
};

}  // namespace

std::unique_ptr<Command> MakeStore() { return std::make_unique<StoreVerbs>(); }

}  // namespace dp::ctl
