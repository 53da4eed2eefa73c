#include "server/parameters/parameter_memory.h"

#include "absl/strings/str_cat.h"

namespace dp::server {

absl::StatusOr<ParameterMemory::Share> ParameterMemory::Take(JobId job, uint64_t bytes) {
  uint64_t free = 0;
  {
    MutexLock lock(mu_);
    free = bytes_max_ - taken_;
    if (bytes <= free) {
      taken_ += bytes;
      return Share(*this, bytes);
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
