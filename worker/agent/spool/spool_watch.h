#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <thread>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/program/repeated_reason.h"
#include "worker/agent/spool/spool_budget.h"
#include "worker/agent/spool/spool_file.h"

namespace dp::worker {

// How often spool files are looked at while there are any. Bounds how late a line may leave, and
// how exact its time is.
inline constexpr absl::Duration kLookAgain = absl::Milliseconds(100);

// Looks at the spool files of all ranks, on a thread that waits for nothing else. Notes when new
// bytes are found. Keeps the files within their bound and within what their disk has room for
// (FitSpools), whether the coordinator takes anything or not. Logs why a file cannot be opened.
// Thread-safe.
class SpoolWatch {
 public:
  // Called at each look, on the watch's thread.
  using Disk = std::function<DiskSpace()>;

  // `clock` gives the times of lines; it must outlive the watch.
  SpoolWatch(uint64_t bytes_max, Disk disk, const Clock& clock);
  ~SpoolWatch();

  void Add(std::shared_ptr<SpoolFile> file) DP_EXCLUDES(mu_);
  void Remove(const std::shared_ptr<SpoolFile>& file) DP_EXCLUDES(mu_);

 private:
  using Files = std::set<std::shared_ptr<SpoolFile>>;

  void Loop();
  // Waits for the next look. Returns the files; none at the end.
  Files Next() DP_EXCLUDES(mu_);
  void Fit(const Files& files);
  SpoolBounds Bounds(uint64_t kept);
  void TellTrouble(const Files& files);

  const uint64_t bytes_max_;
  const Disk disk_;
  const Clock& clock_;
  // Owned by the thread.
  RepeatedReason trouble_{"spool_not_bounded"};
  RepeatedReason unread_{"spool_not_read"};
  RepeatedReason disk_low_{"spool_disk_low"};

  Mutex mu_;
  CondVar changed_;
  Files files_ DP_GUARDED_BY(mu_);
  bool ended_ DP_GUARDED_BY(mu_) = false;
  std::jthread thread_;
};

}  // namespace dp::worker
