#pragma once

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/bounded_queue.h"
#include "base/clock.h"
#include "base/id.h"
#include "worker/agent/sandbox/mount_plan.h"

namespace dp::worker {

// The directory of these directories, below a daemon's state directory.
inline constexpr char kPrivateTmpsName[] = "/tmp";

// The private directories for temporary files, one for the ranks of a generation together:
// STATE_DIR/tmp/JOB.GENERATION.XXXXXX/{tmp,var-tmp}. The random part keeps jobs of different
// coordinators apart. A thread of its own removes them, because ranks may leave millions of files.
// The destructor removes those that are left, for kRemovePatience at most; the next daemon of the
// state directory removes the rest. The other methods are called by one thread.
class PrivateTmps {
 public:
  static constexpr absl::Duration kRemovePatience = absl::Seconds(10);

  // `earlier_gone`: whether nothing is left of the ranks of earlier daemons, whose directories are
  // removed then. Called on this object's thread until it says yes.
  PrivateTmps(const std::string& state_dir, std::function<bool()> earlier_gone,
              const Clock& clock = Clock::Steady());
  ~PrivateTmps();

  // Makes the generation's directory, unless it is there. `mounts` are those of its ranks, of which
  // mount points are made. Errors: Internal names the path and the reason.
  absl::Status Make(JobId job, Generation generation, const RankMounts& mounts);
  // Whether Make could make one now. Errors: as those of Make.
  absl::Status CheckRoom() const;
  // The directory, for RankMounts. Precondition: Make has made it.
  const std::string& PathOf(JobId job, Generation generation) const;
  // Nothing is left of the generation's ranks. A no-op for one without a directory.
  void RanksGone(JobId job, Generation generation);

 private:
  // For mkdtemp.
  std::string NameOf(JobId job, Generation generation) const;
  void Loop();
  void RemoveLeftOvers();
  void Remove(const std::string& path);
  bool MayGoOn() const;

  const std::string dir_;
  const std::function<bool()> earlier_gone_;
  const Clock& clock_;
  std::map<std::pair<JobId, Generation>, std::string> made_;
  std::vector<std::string> left_overs_;  // owned by the thread once it runs
  BoundedQueue<std::string> gone_;
  absl::Time give_up_at_;  // written before gone_ is closed, read after that
  std::jthread thread_;
};

}  // namespace dp::worker
