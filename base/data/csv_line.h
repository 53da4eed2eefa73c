#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace dp::data {

// Takes the next line that is not empty off `text`, without its line end, and counts lines in
// `number`. Empty at the end of the text.
absl::string_view TakeCsvLine(absl::string_view& text, int64_t& number);

// Splits a line at a delimiter. Quotes around a field are removed; within them a delimiter is text
// and "" is a quote. Spaces around a field do not count. Returns false if a quote does not end.
bool SplitCsvLine(absl::string_view line, char delimiter, std::vector<std::string>& fields);

}  // namespace dp::data
