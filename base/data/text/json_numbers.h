#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dp::data {

// The members of a JSON object whose values are whole numbers from 0 on, in their order: the form
// of a tokenizer's vocabulary. Names are UTF-8. Pure. Errors: InvalidArgument names the byte at
// which something else stands.
absl::StatusOr<std::vector<std::pair<std::string, int64_t>>> ParseJsonNumbers(
    absl::string_view json);

}  // namespace dp::data
