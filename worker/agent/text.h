#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// Bytes that a program wrote, as the lines they may be. Pure.

namespace dp::worker {

// How many of `unsent`, which begins at the start of a line or within one, may be sent now: whole
// lines, all of a line with a carriage return, as progress bars draw it, and all of a line that has
// grown past kWholeLineBytesMax. `ended`: nothing follows.
size_t ShippableBytes(std::string_view unsent, bool ended);

// The last lines of `text`, oldest first: at most `count`, without empty ones at the end.
std::vector<std::string_view> LastLinesOf(std::string_view text, size_t count);

// At most `bytes_max` of `line`, with "..." where it was cut and '?' for what is not UTF-8.
std::string Printable(std::string_view line, size_t bytes_max);

}  // namespace dp::worker
