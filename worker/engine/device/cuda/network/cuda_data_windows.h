#pragma once

#include <cstdint>
#include <vector>

#include "worker/engine/data/dataset.h"

namespace dp::engine::cuda {

// Where each sample's window begins in the tokens of all files, put one after another. Indexed by
// the sample's number; `samples` is how many there are. Pure.
std::vector<int64_t> WindowsOf(const StoredTokens& stored, int64_t context, int64_t samples);

// Bytes of device memory that the stored data of `samples` samples takes.
int64_t StoredBytes(const Storage& storage, int64_t samples);

// Whether a device with `free` bytes left may keep `bytes`: evaluation, collectives and the
// libraries need memory, too.
inline bool FitsOnDevice(int64_t bytes, int64_t free) { return bytes <= free / 2; }

}  // namespace dp::engine::cuda
