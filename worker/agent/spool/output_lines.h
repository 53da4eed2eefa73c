#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// Splits the bytes that a program wrote into lines. Pure.

namespace dp::worker {

// How many of `unsent`'s bytes may be sent now; they begin at the start of a line or within one.
// Whole lines are sent. A last line is sent as far as it goes if it has a carriage return, as
// progress bars write it, or has reached kWholeLineBytesMax. `ended`: nothing follows, so all is
// sent.
size_t ShippableBytes(std::string_view unsent, bool ended);

// The last lines of `text`, oldest first: at most `count`, without empty lines at the end.
std::vector<std::string_view> LastLinesOf(std::string_view text, size_t count);

// `line` in at most `bytes_max` bytes. "..." marks a cut; '?' replaces a byte that is not UTF-8.
std::string Printable(std::string_view line, size_t bytes_max);

}  // namespace dp::worker
