#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace dp::server {

// CRC-32 of a record and of what it is called, so that records do not change places unnoticed.
int64_t Checksum(const std::string& name, absl::string_view record);

}  // namespace dp::server
