#include "server/logs/log_page.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/logs/log_store.h"

namespace dp::server {
namespace {

using Streams = std::map<LogStreamKey, LogFile>;

// A selected stream: where the page begins in it, and where the readable bytes end.
struct Span {
  LogStreamKey stream;
  const LogFile* file;
  uint64_t begin = 0;
  uint64_t end = 0;

  // The cut is shown once, to each reader that reads up to it.
  bool tells_cut() const { return file->cut() && begin <= end; }
  bool empty() const { return begin >= end && !tells_cut(); }
};

bool StreamBefore(const LogPosition& a, const LogPosition& b) { return a.stream < b.stream; }

// The sorted selection of a query: streams and positions can be ten thousands each.
class Selection {
 public:
  explicit Selection(const LogQuery& query)
      : query_(query), ranks_(query.ranks), from_(query.from) {
    std::sort(ranks_.begin(), ranks_.end());
    std::sort(from_.begin(), from_.end(), StreamBefore);
  }

  absl::StatusOr<std::vector<Span>> Of(const Streams& streams) const {
    std::vector<Span> spans;
    const Generation first = std::max(query_.since_generation, query_.generation);
    for (auto at = streams.lower_bound(LogStreamKey{first}); at != streams.end(); ++at) {
      const auto& [stream, file] = *at;
      if (query_.generation.valid() && stream.generation != query_.generation) break;
      if (!Selects(stream)) continue;
      Span span{.stream = stream, .file = &file};
      span.end = query_.finished ? file.stored_end() : file.readable_end();
      DP_RETURN_IF_ERROR(SetBegin(span));
      spans.push_back(span);
    }
    return spans;
  }

 private:
  bool Selects(const LogStreamKey& stream) const {
    return SelectsKind(query_, stream.kind) &&
           (ranks_.empty() || std::binary_search(ranks_.begin(), ranks_.end(), stream.rank));
  }

  absl::Status SetBegin(Span& span) const {
    const auto from =
        std::lower_bound(from_.begin(), from_.end(), LogPosition{span.stream}, StreamBefore);
    if (from != from_.end() && from->stream == span.stream) {
      span.begin = from->offset;
      return absl::OkStatus();
    }
    if (query_.tail_lines > 0) {
      DP_ASSIGN_OR_RETURN(span.begin, span.file->TailStart(span.end, query_.tail_lines));
    }
    if (query_.since > absl::InfinitePast()) {
      DP_ASSIGN_OR_RETURN(const uint64_t since, span.file->Since(query_.since, span.end));
      span.begin = std::max(span.begin, since);
    }
    return absl::OkStatus();
  }

  const LogQuery& query_;
  std::vector<int> ranks_;
  std::vector<LogPosition> from_;
};

constexpr const char* NameOfStream(LogStreamKey::Kind kind) {
  switch (kind) {
    case LogStreamKey::Kind::kStdout:
      return "standard output";
    case LogStreamKey::Kind::kStderr:
      return "standard error";
    case LogStreamKey::Kind::kMetrics:
      return "metrics";
  }
  return "";
}

std::string WriterOf(const LogStreamKey& stream) {
  return absl::StrCat("rank ", stream.rank, "'s ", NameOfStream(stream.kind));
}

const char* HintOnEmptying(LogStreamKey::Kind kind) {
  switch (kind) {
    case LogStreamKey::Kind::kStdout:
      return " (> /dev/stdout does that, >&1 does not)";
    case LogStreamKey::Kind::kStderr:
      return " (> /dev/stderr does that, >&2 does not)";
    case LogStreamKey::Kind::kMetrics:
      return "";
  }
  return "";
}

// A gap of one byte stands for bytes that nobody counted. In a longer gap that byte does not
// matter.
std::string EmptiedLine(const LogStreamKey& stream, uint64_t missing) {
  return absl::StrCat("[log cut here: rank ", stream.rank, " emptied the file of its ",
                      NameOfStream(stream.kind), HintOnEmptying(stream.kind), "; ",
                      missing > 1 ? absl::StrCat("about ", missing, " bytes are")
                                  : "what the rank wrote just before may be",
                      " missing]\n");
}

std::string GapLine(const LogStreamKey& stream, const LogGap& gap, uint64_t missing) {
  if (gap.reason == LogGap::Reason::kEmptied) return EmptiedLine(stream, missing);
  const char* why = gap.reason == LogGap::Reason::kWorker
                        ? "its worker had no room for more that waits (dp-worker "
                          "--spool-bytes-max; a smaller disk has room for less)"
                        : "the logs of all jobs had reached their limit (dp-coordinator "
                          "--logs-bytes-max)";
  return absl::StrCat("[log cut here: ", missing, " bytes of ", WriterOf(stream), " are missing, ",
                      why, "]\n");
}

std::string CutLine(const Span& span) {
  return absl::StrCat("[log cut here at byte ", span.end, " of ", WriterOf(span.stream),
                      ": the logs of this job reached their limit (dp-coordinator "
                      "--job-logs-bytes-max)]\n");
}

// One stream's part of a page, of about `room` bytes.
class StreamPage {
 public:
  StreamPage(const Span& span, uint64_t room, bool with_times, LogPage& page)
      : span_(span), next_(span.begin), room_(room), with_times_(with_times), page_(page) {}

  // Returns how many bytes were added.
  absl::StatusOr<uint64_t> Fill() {
    const uint64_t room = room_;
    while (next_ < span_.end && room_ > 0) {
      const LogGap* gap = span_.file->GapAtOrBehind(next_);
      if (gap != nullptr && gap->begin <= next_) {
        DP_RETURN_IF_ERROR(AddGap(*gap));
      } else {
        const uint64_t end = gap == nullptr ? span_.end : std::min(gap->begin, span_.end);
        DP_ASSIGN_OR_RETURN(const bool added, AddLines(end, gap != nullptr));
        if (!added) break;
      }
    }
    if (next_ == span_.end && span_.tells_cut()) AddCut();
    if (next_ < span_.end) page_.exhausted = false;
    page_.next.push_back({span_.stream, next_});
    return room - room_;
  }

 private:
  // Adds lines up to `end`; a line before a gap ends at the gap. Returns false if no line fits.
  absl::StatusOr<bool> AddLines(uint64_t end, bool before_gap) {
    const uint64_t wanted = std::min(room_, end - next_);
    DP_ASSIGN_OR_RETURN(std::string data, span_.file->Read(next_, wanted));
    const size_t newline = data.rfind('\n');
    const bool more = next_ + data.size() < end;
    // At most the share, ending with a line, unless one line alone is longer or the span ends.
    if (more && newline != data.npos) data.resize(newline + 1);
    if (data.empty() || (more && newline == data.npos && room_ < kWholeLineBytesMax)) return false;
    const uint64_t size = data.size();
    if (before_gap && next_ + size == end && data.back() != '\n') data.push_back('\n');
    DP_RETURN_IF_ERROR(Add(std::move(data), next_ + size, 0));
    return true;
  }

  absl::Status AddGap(const LogGap& gap) {
    const uint64_t missing = gap.end - next_;
    return Add(GapLine(span_.stream, gap, missing), gap.end, missing);
  }

  void AddCut() {
    const bool in_line = !page_.chunks.empty() && page_.chunks.back().stream == span_.stream &&
                         page_.chunks.back().data.back() != '\n';
    page_.chunks.push_back({span_.stream,
                            span_.end,
                            absl::StrCat(in_line ? "\n" : "", CutLine(span_)),
                            {},
                            span_.file->end() - span_.end});
    next_ = span_.file->end();
  }

  absl::Status Add(std::string data, uint64_t next, uint64_t cut_bytes) {
    LogChunk chunk{span_.stream, next_, std::move(data)};
    chunk.cut_bytes = cut_bytes;
    if (with_times_) {
      DP_ASSIGN_OR_RETURN(chunk.times, span_.file->Times(next_, next));
    }
    room_ -= std::min<uint64_t>(room_, chunk.data.size());
    next_ = next;
    page_.chunks.push_back(std::move(chunk));
    return absl::OkStatus();
  }

  const Span& span_;
  uint64_t next_;
  uint64_t room_;
  const bool with_times_;
  LogPage& page_;
};

}  // namespace

bool SelectsKind(const LogQuery& query, LogStreamKey::Kind kind) {
  if (query.kinds.empty()) return kind != LogStreamKey::Kind::kMetrics;
  return std::find(query.kinds.begin(), query.kinds.end(), kind) != query.kinds.end();
}

absl::StatusOr<LogPage> ReadPage(const Streams& streams, const LogQuery& query) {
  DP_ASSIGN_OR_RETURN(const std::vector<Span> spans, Selection(query).Of(streams));
  const auto first = std::find_if(spans.begin(), spans.end(), [](auto& s) { return !s.empty(); });
  const Generation reading = first == spans.end() ? Generation() : first->stream.generation;
  const uint64_t busy = std::count_if(spans.begin(), spans.end(), [&](auto& s) {
    return !s.empty() && s.stream.generation == reading;
  });
  // Equal shares for the streams of a generation: otherwise a rank that floods would fill every
  // page, and its peers' lines would not be read. But a whole line must fit, whatever the number of
  // streams. With more than 16 busy streams, those without room are read once the ones before them
  // have no more, and so are later generations.
  const uint64_t share =
      std::max<uint64_t>(kWholeLineBytesMax, kLogPageBytesMax / std::max<uint64_t>(busy, 1));
  LogPage page{.exhausted = true};
  uint64_t room = kLogPageBytesMax;
  for (const Span& span : spans) {
    const bool waits = !page.exhausted && span.stream.generation > reading;
    if (!span.empty() && (room < share || waits)) {
      page.next.push_back({span.stream, span.begin});
      page.exhausted = false;
      continue;
    }
    StreamPage part(span, share, query.with_times, page);
    DP_ASSIGN_OR_RETURN(const uint64_t added, part.Fill());
    room -= std::min(room, added);
  }
  return page;
}

}  // namespace dp::server
