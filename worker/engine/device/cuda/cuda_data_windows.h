#pragma once

#include <cstdint>
#include <vector>

#include "worker/engine/data/dataset.h"

namespace dp::engine::cuda {

// Where each sample's window begins in the files' tokens, put one after another; by the sample's
// number. `samples`: how many there are. Pure.
std::vector<int64_t> WindowsOf(const StoredTokens& stored, int64_t context, int64_t samples);

// Bytes of device memory for what is stored, of `samples` samples.
int64_t StoredBytes(const Storage& storage, int64_t samples);

// Whether so much may be kept on a device with `free` bytes left: evaluation, collectives and the
// libraries want memory, too.
inline bool FitsOnDevice(int64_t bytes, int64_t free) { return bytes <= free / 2; }

}  // namespace dp::engine::cuda
