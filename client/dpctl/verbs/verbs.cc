#include "client/dpctl/verbs/verbs.h"

namespace dp::ctl {

std::vector<std::unique_ptr<Command>> AllCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  for (auto* make : {MakeSubmit,   MakeRun,     MakeTorchrun, MakeLaunch, MakePs,
                     MakeDescribe, MakeLogs,    MakeWait,     MakeCancel, MakeHold,
                     MakeRelease,  MakeRequeue, MakePriority, MakeEvents, MakeCheckpoints,
                     MakeWorkers,  MakeDrain,   MakeUndrain,  MakeStore,  MakeCompletion})
    commands.push_back(make());
  return commands;
}

}  // namespace dp::ctl
