#pragma once

#include <string>
#include <vector>

#include "server/shell/log_chunk.h"

namespace dp::server {

// The last lines of a page of one rank, as a failure keeps them: of standard error, with those of
// standard output before them while there is room; what is not UTF-8 as '?'. Pure.
std::vector<std::string> LastLines(const LogPage& page, Generation generation);

}  // namespace dp::server
