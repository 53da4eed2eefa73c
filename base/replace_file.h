#pragma once

#include <string>

// Small files that must survive a crash of the host. Uses no library, because dp-guard links it.

namespace dp {

// Replaces the content of `path` by `text`: writes a temporary file beside it, syncs it and renames
// it. Does not sync the directory. On failure returns false, and the old content stays.
bool ReplaceFile(const std::string& path, const std::string& text);

// Removes `path`, and a temporary file that a crash may have left beside it.
void RemoveReplacedFile(const std::string& path);

}  // namespace dp
