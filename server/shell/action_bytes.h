#pragma once

#include <cstddef>

#include "server/core/command.h"

namespace dp::server {

// What an action holds that its sender may make large, roughly: the keys and values of a batch, the
// spec of a job. Pure.
size_t BytesOf(const core::Action& action);

}  // namespace dp::server
