#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace dp {

// CRC-32C (Castagnoli) of `bytes`, appended to data whose CRC is `crc`. Start with 0. The checksum
// of a whole is therefore the checksum of its parts in turn. Uses the processor's instruction where
// there is one. Pure; any thread.
uint32_t ExtendCrc32c(uint32_t crc, absl::string_view bytes);

// The definition of ExtendCrc32c, by tables. For processors without the instruction, and for tests.
uint32_t ExtendCrc32cByTables(uint32_t crc, absl::string_view bytes);

}  // namespace dp
