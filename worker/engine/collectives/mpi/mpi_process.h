#pragma once

#include <mpi.h>

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "worker/engine/collectives/mpi/mpi_group.h"
#include "worker/engine/collectives/sigpipe.h"

namespace dp::engine {

// Somebody who uses MPI until the process ends.
class MpiUser {
 public:
  virtual ~MpiUser() = default;
  // The process ends: the last calls of MPI. Returns whether nothing is left in flight.
  virtual bool EndUse() = 0;
};

// MPI in this process. It never blocks in MPI: calls start transfers and look after them, one call
// at a time. Thread-safe.
class MpiProcess {
 public:
  // Never destroyed. Errors: those of StartMpi.
  static absl::StatusOr<MpiProcess*> Start();

  const MpiPlace& place() const { return place_; }
  // Apart from MPI_COMM_WORLD, so that messages of the program never meet ours. Its calls return
  // errors.
  MPI_Comm world() const { return world_; }

  // `count` consecutive tags on which this process receives, and nobody else in it.
  absl::StatusOr<int> ReserveTags(int count) DP_EXCLUDES(mu_);
  absl::StatusOr<std::string> TextOfRank0(const std::string& text, absl::Duration timeout)
      DP_EXCLUDES(mu_);

  void AddUser(MpiUser* user) DP_EXCLUDES(mu_);
  void RemoveUser(MpiUser* user) DP_EXCLUDES(mu_);

  // Calls `body`, which returns a result of MPI's, while nobody else calls MPI. Errors:
  // Unavailable, with MPI's words; FailedPrecondition MPI has been given up, or has ended.
  template <typename Body>
  absl::Status Call(const Body& body) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (!usable_.ok()) return usable_;
    // MPI writes on the thread that calls it, also to a peer that has just been killed.
    thread_local const bool outlives_peers = (BlockSigpipe(), true);
    (void)outlives_peers;
    return StatusOf(body());
  }
  // From here on nobody calls MPI: a transfer that could not be ended would write to memory that is
  // in use for something else.
  void GiveUp(const absl::Status& why) DP_EXCLUDES(mu_);
  // The process will end without MPI_Finalize, which would wait for peers that may not come.
  void NoteFailure() DP_EXCLUDES(mu_);

 private:
  MpiProcess(MPI_Comm world, const MpiPlace& place, int tags);
  static absl::StatusOr<MpiProcess*> StartOnce();
  static absl::Status StatusOf(int result);
  void End() DP_EXCLUDES(mu_);

  const MPI_Comm world_;
  const MpiPlace place_;
  const int tags_;
  Mutex mu_;
  absl::Status usable_ DP_GUARDED_BY(mu_);
  bool failed_ DP_GUARDED_BY(mu_) = false;
  int next_tag_ DP_GUARDED_BY(mu_) = 0;
  std::set<MpiUser*> users_ DP_GUARDED_BY(mu_);
};

}  // namespace dp::engine
