#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/id.h"
#include "base/mutex.h"
#include "client/connection.h"
#include "client/pause.h"
#include "client/retry_policy.h"
#include "dp/v1/store.pb.h"
#include "store/store.h"

namespace dp::client {

// The caller of a blocked operation, shown to whoever asks why a job makes no progress.
struct StoreCaller {
  std::string name;  // for people: "rank 3"
  int rank = -1;     // -1: none
};

struct GrpcStoreOptions {
  JobId job;
  Generation generation;
  RetryOptions retry = {};
  StoreCaller caller = {};
};

// The store of one generation of a job, kept by the coordinator. A rank owns the store and lends it
// the connection; Pause ends its waits when the rank shuts down. Thread-safe. Changes run one after
// the other, reads and waits beside them.
//
// Every change carries this store's random client id and a sequence number, so that a repeated
// request whose answer was lost is applied once. An unreachable coordinator is retried for
// `retry.deadline` (Await: at least for its timeout), which bridges a restart.
//
// Errors beyond Store's: Unavailable or DeadlineExceeded when that time has passed; NotFound
// unknown job; Cancelled after a shutdown. On the first two a change may or may not have been made.
class GrpcStore final : public Store {
 public:
  GrpcStore(Connection& connection, Pause& pause, GrpcStoreOptions options,
            const Clock& clock = Clock::Steady());

  absl::StatusOr<std::vector<StoreResult>> Execute(
      absl::Span<const StoreOperation> operations) override;
  absl::StatusOr<std::vector<StoreResult>> Await(absl::Span<const StoreOperation> reads,
                                                 absl::Duration timeout) override;

 private:
  absl::StatusOr<v1::ExecuteResponse> Send(const v1::ExecuteRequest& request);
  absl::StatusOr<v1::AwaitResponse> Poll(v1::AwaitRequest& request, absl::Time until);
  uint64_t BeginChange() DP_EXCLUDES(mu_);
  void EndChange() DP_EXCLUDES(mu_);

  Connection& connection_;
  Pause& pause_;
  const GrpcStoreOptions options_;
  const Clock& clock_;
  const uint64_t client_;

  Mutex mu_;
  CondVar change_ended_;
  bool changing_ DP_GUARDED_BY(mu_) = false;
  uint64_t sequence_ DP_GUARDED_BY(mu_) = 0;
};

}  // namespace dp::client
