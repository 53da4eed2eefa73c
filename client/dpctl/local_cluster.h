#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace dp::ctl {

// The GPUs of this machine that ranks may use, as its worker daemon would find them.
struct LocalGpus {
  int count = 0;
  std::string why_not;  // where there are none
};

struct LocalOptions {
  int workers = 1;
  int slots = 1;               // of each worker
  bool serves_stores = false;  // the coordinator itself, as jobs with store: direct need it
  // How long the job's ranks may go on after SIGTERM, when the workers are stopped.
  absl::Duration grace = absl::ZeroDuration();
  int stop = -1;  // a descriptor: once it can be read, the start is given up
};

// A coordinator and workers of our own on this machine, which live as long as this object. The
// destructor ends them and removes what they wrote. Not thread-safe; address() never changes.
class LocalCluster {
 public:
  virtual ~LocalCluster() = default;
  virtual std::string address() const = 0;
  // Tells how the coordinator or the last worker has ended, once, from a thread of its own, while
  // what is returned lives.
  virtual std::shared_ptr<void> Watch(std::function<void(const std::string& how)> lost) = 0;
  // From now on the destructor kills the ranks without their grace.
  virtual void EndAtOnce() = 0;
};

// Starts the programs that lie beside the running one, in a temporary directory. Should this
// process die without its destructors, the kernel ends them, and the next start removes the
// directory. Errors: FailedPrecondition a program
// is missing, or no temporary directory can be made; Internal one did not become ready, with its
// last lines; Cancelled by LocalOptions::stop.
absl::StatusOr<std::unique_ptr<LocalCluster>> StartLocalCluster(const LocalOptions& options);

// Asks the dp-worker beside the running program which GPUs ranks may use here; nothing else is
// started. Where it cannot be asked there are none, with the reason.
LocalGpus FindLocalGpus();

}  // namespace dp::ctl
