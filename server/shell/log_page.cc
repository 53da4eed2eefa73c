#include "server/shell/log_page.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/shell/log_store.h"

namespace dp::server {
namespace {

// A selected stream: where the page begins in it, and where what can be given ends.
struct Span {
  LogStreamKey stream;
  const LogFile* file;
  uint64_t begin = 0;
  uint64_t end = 0;

  // The cut is told once, to whoever reads up to it.
  bool tells_cut() const { return file->cut() && begin <= end; }
  bool empty() const { return begin >= end && !tells_cut(); }
};

template <typename T>
bool Contains(const std::vector<T>& list, const T& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

bool Selects(const LogQuery& query, const LogStreamKey& stream) {
  if (query.generation.valid() && stream.generation != query.generation) return false;
  if (stream.generation < query.since_generation) return false;
  const bool kind = query.kinds.empty() ? stream.kind != LogStreamKey::Kind::kMetrics
                                        : Contains(query.kinds, stream.kind);
  return kind && (query.ranks.empty() || Contains(query.ranks, stream.rank));
}

absl::StatusOr<uint64_t> Begin(const LogQuery& query, const Span& span) {
  for (const LogPosition& position : query.from) {
    if (position.stream == span.stream) return position.offset;
  }
  if (query.tail_lines <= 0) return 0;
  return span.file->TailStart(span.end, query.tail_lines);
}

absl::StatusOr<std::vector<Span>> Select(const std::map<LogStreamKey, LogFile>& streams,
                                         const LogQuery& query) {
  std::vector<Span> spans;
  for (const auto& [stream, file] : streams) {
    if (!Selects(query, stream)) continue;
    Span span{.stream = stream, .file = &file};
    span.end = query.finished ? file.stored_end() : file.readable_end();
    DP_ASSIGN_OR_RETURN(span.begin, Begin(query, span));
    spans.push_back(span);
  }
  return spans;
}

// At most `size` bytes, ending with a line unless one line alone is longer or the span ends.
absl::StatusOr<std::string> ReadLines(const Span& span, uint64_t size) {
  if (span.begin >= span.end) return std::string();
  const uint64_t wanted = std::min(size, span.end - span.begin);
  DP_ASSIGN_OR_RETURN(std::string data, span.file->Read(span.begin, wanted));
  if (span.begin + data.size() < span.end) {
    const size_t newline = data.rfind('\n');
    if (newline != data.npos) data.resize(newline + 1);
  }
  return data;
}

std::string CutLine(const Span& span) {
  return absl::StrCat("[log cut here at byte ", span.end,
                      ": the logs of this job reached their limit]\n");
}

// Adds what is next of one stream to the page, and where to go on.
absl::Status AddChunk(const Span& span, uint64_t size, LogPage& page) {
  DP_ASSIGN_OR_RETURN(std::string data, ReadLines(span, size));
  uint64_t next = span.begin + data.size();
  if (next == span.end && span.tells_cut()) {
    absl::StrAppend(&data, data.empty() || data.back() == '\n' ? "" : "\n", CutLine(span));
    next = span.file->end();
  }
  if (!data.empty()) page.chunks.push_back({span.stream, span.begin, std::move(data)});
  if (next < span.end) page.exhausted = false;
  page.next.push_back({span.stream, next});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LogPage> ReadPage(const std::map<LogStreamKey, LogFile>& streams,
                                 const LogQuery& query) {
  DP_ASSIGN_OR_RETURN(const std::vector<Span> spans, Select(streams, query));
  const uint64_t busy =
      std::count_if(spans.begin(), spans.end(), [](auto& s) { return !s.empty(); });
  // Equal shares, not first come: a rank that floods would fill every page and its peers' lines
  // would not be read. But a whole line must fit, whatever the number of streams: above 16 busy
  // ones, those that find no room are read once the ones before them have been caught up with.
  const uint64_t share =
      std::max<uint64_t>(kWholeLineBytesMax, kLogPageBytesMax / std::max<uint64_t>(busy, 1));
  LogPage page{.exhausted = true};
  uint64_t room = kLogPageBytesMax;
  for (const Span& span : spans) {
    if (room < share && !span.empty()) {
      page.next.push_back({span.stream, span.begin});
      page.exhausted = false;
      continue;
    }
    DP_RETURN_IF_ERROR(AddChunk(span, share, page));
    room -= page.chunks.empty() || page.chunks.back().stream != span.stream
                ? 0
                : std::min<uint64_t>(room, page.chunks.back().data.size());
  }
  return page;
}

}  // namespace dp::server
