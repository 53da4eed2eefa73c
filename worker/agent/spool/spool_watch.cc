#include "worker/agent/spool/spool_watch.h"

#include <pthread.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/program/log.h"

namespace dp::worker {

SpoolWatch::SpoolWatch(uint64_t bytes_max, Disk disk, const Clock& clock)
    : bytes_max_(bytes_max), disk_(std::move(disk)), clock_(clock) {
  thread_ = std::jthread([this] { Loop(); });
  pthread_setname_np(thread_.native_handle(), "spool_watch");
}

SpoolWatch::~SpoolWatch() {
  MutexLock lock(mu_);
  ended_ = true;
  changed_.NotifyAll();
}

void SpoolWatch::Add(std::shared_ptr<SpoolFile> file) {
  MutexLock lock(mu_);
  files_.insert(std::move(file));
  changed_.NotifyAll();
}

void SpoolWatch::Remove(const std::shared_ptr<SpoolFile>& file) {
  MutexLock lock(mu_);
  files_.erase(file);
}

void SpoolWatch::Loop() {
  for (Files files = Next(); !files.empty(); files = Next()) {
    for (const std::shared_ptr<SpoolFile>& file : files) file->Look(clock_.Now());
    Fit(files);
    TellTrouble(files);
  }
}

void SpoolWatch::TellTrouble(const Files& files) {
  absl::Status first;
  for (const std::shared_ptr<SpoolFile>& file : files) first.Update(file->trouble());
  if (first.ok()) {
    unread_.Worked();
  } else {
    unread_.Failed(first);
  }
}

SpoolWatch::Files SpoolWatch::Next() {
  MutexLock lock(mu_);
  (void)changed_.WaitFor(mu_, kLookAgain, [this]() DP_REQUIRES(mu_) { return ended_; });
  while (files_.empty() && !ended_) changed_.Wait(mu_);
  return ended_ ? Files() : files_;
}

void SpoolWatch::Fit(const Files& files) {
  std::vector<SpoolUse> uses;
  for (const std::shared_ptr<SpoolFile>& file : files) uses.push_back(file->use());
  const SpoolBounds bounds = Bounds(KeptBy(uses));
  const std::vector<uint64_t> begins = FitSpools(uses, bounds);
  size_t i = 0;
  for (const std::shared_ptr<SpoolFile>& file : files) {
    const SpoolUse& use = uses[i];
    const uint64_t begin = begins[i++];
    if (begin <= use.begin) continue;
    const absl::Status given_up = file->GiveUpBefore(begin);
    if (!given_up.ok()) {
      trouble_.Failed(given_up);
    } else if (const uint64_t now = file->use().begin;
               now > std::max(use.begin, use.acknowledged)) {
      Log(Severity::kWarning, "logs_cut",
          {{"file", file->path()}, {"before", now}, {"bytes_max", bounds.unsent}});
    }
  }
}

SpoolBounds SpoolWatch::Bounds(uint64_t kept) {
  const DiskSpace disk = disk_();
  const uint64_t reserve = SpoolReserve(disk);
  if (disk.available >= reserve) {
    disk_low_.Worked();
  } else {
    disk_low_.Failed(absl::ResourceExhaustedError(
        absl::StrCat("the disk of ranks' output has less than ", reserve,
                     " bytes free; make room on it, or choose another by --state-dir")));
  }
  return BoundsOf(bytes_max_, kept, disk);
}

}  // namespace dp::worker
