#include "base/data/bpe_file.h"

#include "absl/strings/string_view.h"
#include "base/data/file_bytes.h"
#include "base/status.h"

namespace dp::data {
namespace {

absl::string_view TextIn(const FileBytes& file) {
  return {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()};
}

}  // namespace

absl::StatusOr<BpeTokenizer> OpenBpeTokenizer(const std::string& vocabulary,
                                              const std::string& merges) {
  DP_ASSIGN_OR_RETURN(const FileBytes vocabulary_file, OpenFile(vocabulary));
  DP_ASSIGN_OR_RETURN(const FileBytes merges_file, OpenFile(merges));
  return BpeTokenizer::Parse(TextIn(vocabulary_file), TextIn(merges_file), {vocabulary, merges});
}

}  // namespace dp::data
