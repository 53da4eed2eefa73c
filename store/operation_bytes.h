#pragma once

#include <cstddef>

#include "store/operation.h"

namespace dp {

// Roughly the operation's size in a message or in memory: keys, values and their framing. Pure.
size_t BytesOf(const StoreOperation& operation);

}  // namespace dp
