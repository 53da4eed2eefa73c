#pragma once

#include <thread>
#include <vector>

#include "base/mutex.h"
#include "worker/engine/collectives/nccl/nccl_api.h"

namespace dp::engine {

// Aborts communicators, each on a thread of its own. NCCL's abort blocks until the device has done
// what was queued before the communicator's kernels, which in a training takes up to some steps.
// Whoever gives a communicator up has peers to answer meanwhile. Thread-safe.
class NcclAborts {
 public:
  // `api` outlives this object.
  NcclAborts(NcclApi& api, int device) : api_(api), device_(device) {}
  // Waits for all of them.
  ~NcclAborts() { Await(); }

  // Returns at once. The communicator is no longer the caller's.
  void Begin(NcclApi::Communicator communicator) DP_EXCLUDES(mu_);
  // Until nothing writes to memory of an operation any more.
  void Await() DP_EXCLUDES(mu_);

 private:
  NcclApi& api_;
  const int device_;
  Mutex mu_;
  std::vector<std::thread> threads_ DP_GUARDED_BY(mu_);
};

}  // namespace dp::engine
