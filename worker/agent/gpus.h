#pragma once

#include <string>
#include <vector>

namespace dp::worker {

// The GPUs that ranks of this host may use, as CUDA_VISIBLE_DEVICES names them: by UUID, in the
// order of the bus. Where the daemon's own CUDA_VISIBLE_DEVICES is set (`limit` is not null), what
// stands there. `driver_dir` is the driver's /proc/driver/nvidia/gpus; without it there are none.
std::vector<std::string> FindGpus(const char* limit, const std::string& driver_dir);

}  // namespace dp::worker
