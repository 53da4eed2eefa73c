#pragma once

#include <memory>
#include <vector>

#include "client/dpctl/command.h"

// The verbs of dpctl: one function each, in the file of its name; torchrun and launch are in
// run.cc.

namespace dp::ctl {

std::unique_ptr<Command> MakeAccess();
std::unique_ptr<Command> MakeAudit();
std::unique_ptr<Command> MakeCancel();
std::unique_ptr<Command> MakeCheckpoints();
std::unique_ptr<Command> MakeCompletion();
std::unique_ptr<Command> MakeData();
std::unique_ptr<Command> MakeDescribe();
std::unique_ptr<Command> MakeDrain();
std::unique_ptr<Command> MakeEval();
std::unique_ptr<Command> MakeEvents();
std::unique_ptr<Command> MakeGrant();
std::unique_ptr<Command> MakeHold();
std::unique_ptr<Command> MakeLaunch();
std::unique_ptr<Command> MakeLogin();
std::unique_ptr<Command> MakeLogout();
std::unique_ptr<Command> MakeLogs();
std::unique_ptr<Command> MakePredict();
std::unique_ptr<Command> MakePriority();
std::unique_ptr<Command> MakePrune();
std::unique_ptr<Command> MakePs();
std::unique_ptr<Command> MakeRelease();
std::unique_ptr<Command> MakeRequeue();
std::unique_ptr<Command> MakeRevoke();
std::unique_ptr<Command> MakeRm();
std::unique_ptr<Command> MakeRun();
std::unique_ptr<Command> MakeStore();
std::unique_ptr<Command> MakeSubmit();
std::unique_ptr<Command> MakeToken();
std::unique_ptr<Command> MakeTorchrun();
std::unique_ptr<Command> MakeUndrain();
std::unique_ptr<Command> MakeWait();
std::unique_ptr<Command> MakeWeights();
std::unique_ptr<Command> MakeWhoAmI();
std::unique_ptr<Command> MakeWorkers();

// All verbs of the command line, in the order of the help.
inline std::vector<std::unique_ptr<Command>> AllCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  for (auto* make :
       {MakeSubmit,  MakeRun,     MakeTorchrun, MakeLaunch,    MakePs,          MakeDescribe,
        MakeLogs,    MakeWait,    MakeCancel,   MakeRm,        MakePrune,       MakeHold,
        MakeRelease, MakeRequeue, MakePriority, MakeEvents,    MakeCheckpoints, MakeEval,
        MakePredict, MakeWeights, MakeWorkers,  MakeDrain,     MakeUndrain,     MakeStore,
        MakeData,    MakeLogin,   MakeLogout,   MakeWhoAmI,    MakeToken,       MakeGrant,
        MakeRevoke,  MakeAccess,  MakeAudit,    MakeCompletion})
    commands.push_back(make());
  return commands;
}

// The verbs of `data`.
std::unique_ptr<Command> MakeDataConvert();
std::unique_ptr<Command> MakeDataInspect();

// The verbs of `weights`.
std::unique_ptr<Command> MakeWeightsDiff();
std::unique_ptr<Command> MakeWeightsLs();
std::unique_ptr<Command> MakeWeightsPull();
std::unique_ptr<Command> MakeWeightsPush();
std::unique_ptr<Command> MakeWeightsRm();

// The verbs of `store`.
std::unique_ptr<Command> MakeStoreGet();
std::unique_ptr<Command> MakeStoreLs();
std::unique_ptr<Command> MakeStoreSet();
std::unique_ptr<Command> MakeStoreWaiters();
std::unique_ptr<Command> MakeStoreWatch();

}  // namespace dp::ctl
