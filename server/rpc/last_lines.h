#pragma once

#include <string>
#include <vector>

#include "server/logs/log_chunk.h"

namespace dp::server {

// The last lines of one rank's page, as a failure keeps them: standard output, then standard error.
// If there are too many, the first are dropped. Bytes that are not UTF-8 become '?'. Pure.
std::vector<std::string> LastLines(const LogPage& page, Generation generation);

}  // namespace dp::server
