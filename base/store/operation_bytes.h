#pragma once

#include <cstddef>

#include "base/store/operation.h"

namespace dp {

// What the operation takes in a message or in memory, roughly: its keys and values, and their
// framing. Pure.
size_t BytesOf(const StoreOperation& operation);

}  // namespace dp
