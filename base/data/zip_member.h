#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/data/file_bytes.h"

namespace dp::data {

// A file in a ZIP archive. Stored members are views of the archive, compressed ones are
// decompressed into memory. Archives of more than 4 GiB (ZIP64) are read, too.
// Errors: InvalidArgument damage, encryption or another compression than deflate; NotFound no such
// member, with the names that there are. The messages do not name the archive.
absl::StatusOr<FileBytes> ReadZipMember(const FileBytes& archive, const std::string& name);

// The names of all members, in the archive's order.
absl::StatusOr<std::vector<std::string>> ZipMemberNames(const FileBytes& archive);

}  // namespace dp::data
