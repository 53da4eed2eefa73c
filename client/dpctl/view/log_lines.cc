#include "client/dpctl/view/log_lines.h"

#include <algorithm>
#include <utility>

#include "absl/strings/string_view.h"
#include "base/limits.h"
#include "proto/convert/time.h"

namespace dp::ctl {
namespace {

using End = LogLine::End;

// The times of a chunk. Offsets must be asked for in ascending order.
class ChunkTimes {
 public:
  explicit ChunkTimes(const v1::LogChunk& chunk) : times_(chunk.times()) {}

  std::optional<absl::Time> At(uint64_t offset) {
    while (next_ < times_.size() && times_[next_].offset() <= offset) ++next_;
    if (next_ == 0) return std::nullopt;
    return FromProto(times_[next_ - 1].time());
  }

 private:
  const google::protobuf::RepeatedPtrField<v1::LogTime>& times_;
  int next_ = 0;  // the first behind the offset
};

}  // namespace

std::vector<LogLine> LogLines::Add(const v1::LogChunk& chunk) {
  const Stream stream{chunk.generation(), chunk.rank(), chunk.stream()};
  Open& open = open_[stream];
  open.host = chunk.host();
  std::vector<LogLine> lines;
  const bool in_line = open.given || !open.text.empty();
  if (chunk.cut_bytes() > 0 && in_line) lines.push_back(Close(stream, open, End::kLineBreak));
  ChunkTimes times(chunk);
  absl::string_view data = chunk.data();
  while (!data.empty()) {
    if (open.text.empty()) open.time = times.At(chunk.offset() + chunk.data().size() - data.size());
    const size_t room = kWholeLineBytesMax - open.text.size();
    const size_t end = std::min(data.find('\n'), data.size());
    const size_t taken = std::min(end, room);
    const bool complete = end < data.size() && end <= room;
    open.text.append(data.data(), taken);
    open.returns = open.returns || data.substr(0, taken).find('\r') != data.npos;
    data.remove_prefix(taken + (complete ? 1 : 0));
    if (!complete && open.text.size() < kWholeLineBytesMax) continue;
    lines.push_back(Close(stream, open, complete ? End::kLineBreak : End::kContinued));
    lines.back().cut_bytes = chunk.cut_bytes();
  }
  if (bars_ == Bars::kAtOnce && open.returns && !open.text.empty()) {
    lines.push_back(Close(stream, open, End::kContinued));
  }
  return lines;
}

std::vector<LogLine> LogLines::Rest() {
  std::vector<LogLine> lines;
  for (auto& [stream, open] : std::exchange(open_, {}))
    if (!open.text.empty()) lines.push_back(Close(stream, open, End::kStreamEnd));
  return lines;
}

LogLine LogLines::Close(const Stream& stream, Open& open, End end) {
  LogLine line{stream.generation, stream.rank, stream.stream, std::move(open.text), open.time};
  line.host = open.host;
  line.end = end;
  line.rest = open.given;
  open.text.clear();
  open.time.reset();
  open.given = end == End::kContinued;
  open.returns = open.returns && open.given;
  return line;
}

}  // namespace dp::ctl
