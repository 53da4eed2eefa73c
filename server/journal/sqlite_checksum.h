#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace dp::server {

// CRC-32 of a record and its name, so that records that changed places are noticed.
int64_t Checksum(const std::string& name, absl::string_view record);

}  // namespace dp::server
