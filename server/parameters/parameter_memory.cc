#include "server/parameters/parameter_memory.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace dp::server {

absl::StatusOr<ParameterMemory::Share> ParameterMemory::Take(JobId job, uint64_t bytes) {
  Share share;
  DP_RETURN_IF_ERROR(Resize(job, bytes, share));
  return share;
}

absl::Status ParameterMemory::Resize(JobId job, uint64_t bytes, Share& share) {
  uint64_t free = 0;
  {
    MutexLock lock(mu_);
    free = bytes_max_ - taken_ + share.bytes_;
    if (bytes <= free) {
      taken_ += bytes;
      taken_ -= share.bytes_;
      share.memory_ = this;
      share.bytes_ = bytes;
      return absl::OkStatus();
    }
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("job ", job.ToString(), ": its table needs ", bytes,
                   " bytes of memory, but only ", free, " of ", bytes_max_,
                   " are free; raise dp-coordinator --parameter-memory, or wait until other "
                   "jobs with strategy ps have ended"));
}

uint64_t ParameterMemory::taken() const {
  MutexLock lock(mu_);
  return taken_;
}

void ParameterMemory::GiveBack(uint64_t bytes) {
  MutexLock lock(mu_);
  taken_ -= bytes;
}

}  // namespace dp::server
