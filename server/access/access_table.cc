#include "server/access/access_table.h"

#include "base/check.h"

namespace dp::server {

// A switch without default: the compiler rejects it when an RPC is missing.
AccessRow RowOf(Rpc rpc) {
  using enum Reach;
  switch (rpc) {
    // Whoever has a join token, which is in the request.
    case Rpc::kAccessEnroll:
      return {.user = kAll, .viewer = kAll, .worker = kAll, .stranger = kAll};
    case Rpc::kAccessRenew:
      return {.user = kOwn, .viewer = kOwn, .worker = kOwn};
    case Rpc::kAccessWhoAmI:
      return {.user = kAll, .viewer = kAll, .worker = kAll, .rank = kAll};
    case Rpc::kAccessCreateToken:
    case Rpc::kAccessGrant:
    case Rpc::kAccessRevoke:
    case Rpc::kAccessListHolders:
    case Rpc::kAccessListRefusals:
      return {};

    case Rpc::kJobsSubmit:
    case Rpc::kJobsPlan:
    case Rpc::kJobsCancel:
    case Rpc::kJobsHold:
    case Rpc::kJobsRelease:
    case Rpc::kJobsSetPriority:
    case Rpc::kJobsRequeue:
    case Rpc::kJobsRemove:
      return {.user = kOwn};
    case Rpc::kJobsGet:
    case Rpc::kJobsList:
    case Rpc::kJobsWatch:
    case Rpc::kJobsWatchEvents:
      return {.user = kOwn, .viewer = kAll};

    // A job's values may be secrets, so viewers see only who waits for them.
    case Rpc::kStoreExecute:
    case Rpc::kStoreAwait:
    case Rpc::kStorePark:
      return {.user = kOwn, .worker = kOwn, .rank = kOwn};
    case Rpc::kStoreListWaiters:
      return {.user = kOwn, .viewer = kAll};

    case Rpc::kLogsAppend:
      return {.worker = kOwn};
    case Rpc::kLogsRead:
      return {.user = kOwn, .viewer = kAll};

    case Rpc::kCheckpointsRegister:
    case Rpc::kCheckpointsRegisterWeights:
      return {.rank = kOwn};
    case Rpc::kCheckpointsList:
      return {.user = kOwn, .viewer = kAll, .rank = kOwn};

    // Named sets: of the user who first pushed them. Ranks: those of their job.
    case Rpc::kParametersPush:
      return {.user = kOwn, .rank = kOwn};
    case Rpc::kParametersPull:
    case Rpc::kParametersDescribe:
      return {.user = kOwn, .viewer = kAll, .rank = kOwn};
    case Rpc::kParametersList:
      return {.user = kOwn, .viewer = kAll};
    case Rpc::kParametersRemove:
      return {.user = kOwn};
    case Rpc::kParametersOpenTable:
    case Rpc::kParametersPushGradients:
    case Rpc::kParametersPullValues:
    case Rpc::kParametersPublishTable:
      return {.rank = kOwn};

    case Rpc::kWorldsJoin:
    case Rpc::kWorldsCompleteFirstStep:
    case Rpc::kWorldsStopEarly:
    case Rpc::kWorldsAccuse:
      return {.rank = kOwn};
    case Rpc::kWorldsWatch:
      return {.user = kOwn, .viewer = kAll, .rank = kOwn};

    case Rpc::kWorkersRegister:
    case Rpc::kWorkersHeartbeat:
    case Rpc::kWorkersWatchAssignment:
    case Rpc::kWorkersReportRank:
    case Rpc::kWorkersReportSlots:
    // A host that goes down empties its worker first, and ends the drain when it is back
    // (dp-worker --undrain).
    case Rpc::kWorkersDrain:
    case Rpc::kWorkersUndrain:
      return {.worker = kOwn};
    case Rpc::kWorkersList:
    case Rpc::kWorkersWatch:
      return {.user = kAll, .viewer = kAll, .worker = kAll};
  }
  DP_CHECK(false);
  return {};
}

}  // namespace dp::server
