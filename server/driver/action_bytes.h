#pragma once

#include <cstddef>

#include "server/core/command.h"

namespace dp::server {

// Approximate bytes of an action's large parts: the keys and values of a batch, the spec of a job.
// Pure.
size_t BytesOf(const core::Action& action);

}  // namespace dp::server
