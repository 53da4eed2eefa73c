#include "server/rpc/last_lines.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_split.h"
#include "base/limits.h"
#include "base/utf8.h"

namespace dp::server {
namespace {

using Kind = LogStreamKey::Kind;

std::vector<std::string> LinesOf(const LogPage& page, Generation generation, Kind kind) {
  std::vector<std::string> lines;
  for (const LogChunk& chunk : page.chunks) {
    if (chunk.stream.generation != generation || chunk.stream.kind != kind) continue;
    for (absl::string_view line : absl::StrSplit(chunk.data, '\n')) lines.emplace_back(line);
    if (!lines.empty() && lines.back().empty()) lines.pop_back();  // after the last newline
  }
  return lines;
}

// At most kLastLineBytesMax bytes of the line, as UTF-8.
std::string Printable(const std::string& line) {
  std::string printable;
  for (std::string_view rest = line; !rest.empty();) {
    const size_t size = Utf8SequenceLength(rest);
    if (printable.size() + std::max<size_t>(size, 1) > kLastLineBytesMax) break;
    printable += size == 0 ? "?" : rest.substr(0, size);
    rest.remove_prefix(std::max<size_t>(size, 1));
  }
  return printable;
}

}  // namespace

std::vector<std::string> LastLines(const LogPage& page, Generation generation) {
  std::vector<std::string> lines = LinesOf(page, generation, Kind::kStdout);
  for (std::string& line : LinesOf(page, generation, Kind::kStderr)) {
    lines.push_back(std::move(line));
  }
  lines.erase(lines.begin(), lines.end() - std::min(lines.size(), kLastLinesMax));
  for (std::string& line : lines) line = Printable(line);
  return lines;
}

}  // namespace dp::server
