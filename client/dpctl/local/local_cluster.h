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
  std::string why_not;  // if there are none
};

struct LocalOptions {
  int workers = 1;
  int slots = 1;               // of each worker
  bool serves_stores = false;  // the coordinator serves stores itself, for store: direct
  // How long ranks may run after SIGTERM when the workers are stopped.
  absl::Duration grace = absl::ZeroDuration();
  int stop = -1;  // a descriptor; once it is readable, the start is cancelled
  // Reports a program that takes long to become ready, with its last lines.
  std::function<void(const std::string& note)> note = [](const std::string&) {};
};

// A separate coordinator and workers on this machine, which live as long as this object. The
// destructor ends them and removes their files. Not thread-safe; address() never changes.
class LocalCluster {
 public:
  virtual ~LocalCluster() = default;
  virtual std::string address() const = 0;
  // The directory of the credential with which it is called.
  virtual std::string credential_dir() const = 0;
  // Reports how the coordinator or the last worker has ended, once, from a thread of its own, while
  // the returned object lives.
  virtual std::shared_ptr<void> Watch(std::function<void(const std::string& how)> lost) = 0;
  // Makes the destructor kill the ranks without their grace.
  virtual void EndAtOnce() = 0;
};

// Starts the programs beside the running one, in a temporary directory. If this process dies
// without its destructors, the kernel ends them, and the next start removes the directory.
// Errors: FailedPrecondition a missing program, or no temporary directory; Internal a program did
// not become ready, with its last lines; Cancelled by LocalOptions::stop.
absl::StatusOr<std::unique_ptr<LocalCluster>> StartLocalCluster(const LocalOptions& options);

// Asks the dp-worker beside the running program for the GPUs that ranks may use here; starts
// nothing else. If dp-worker cannot be asked there are none, with the reason.
LocalGpus FindLocalGpus();

}  // namespace dp::ctl
