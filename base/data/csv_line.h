#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace dp::data {

// Takes the next line that is not empty off `text`, without its line end, and counts lines in
// `number`. Empty at the end of the text.
absl::string_view TakeCsvLine(absl::string_view& text, int64_t& number);

// Takes a UTF-8 byte order mark off the begin of a file's text. Spreadsheets write one.
void SkipByteOrderMark(absl::string_view& text);

// Splits a line at a delimiter. Quotes around a field are removed; within them a delimiter is text
// and "" is a quote. Spaces around a field do not count,
// but for a delimiter. Returns false if a quote does not end.
bool SplitCsvLine(absl::string_view line, char delimiter, std::vector<std::string>& fields);

}  // namespace dp::data
