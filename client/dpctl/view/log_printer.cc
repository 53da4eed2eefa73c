#include "client/dpctl/view/log_printer.h"

#include "absl/strings/str_cat.h"
#include "client/dpctl/job_state.h"

namespace dp::ctl {
namespace {

// In the form of RFC 3339, which --since accepts.
std::string FormatLineTime(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

}  // namespace

void LogPrinter::Print(const LogLine& line) {
  labels_.Learn(line);
  Enter(line.generation);
  if (context_.flags().format != Format::kJson) return PrintText(line, labels_.Of(line));
  JsonWriter json(context_.out(), JsonWriter::Style::kOneLine);
  BeginJson(line, json);
  json.Field("rank", line.rank);
  json.Field("host", labels_.Host(line.generation, line.rank));
  EndJson(line, json);
}

void LogPrinter::Print(const SharedLine& shared) {
  const LogLine& line = shared.line;
  Enter(line.generation);
  if (context_.flags().format != Format::kJson) {
    const bool one = shared.ranks.size() == 1;
    LogLine whole = line;
    whole.end = LogLine::End::kLineBreak;  // other ranks' lines may follow a piece
    return PrintText(whole,
                     one ? labels_.Of(line) : absl::StrCat("[", FormatRanks(shared.ranks), "]"));
  }
  JsonWriter json(context_.out(), JsonWriter::Style::kOneLine);
  BeginJson(line, json);
  json.Key("ranks");
  json.BeginArray();
  for (const int rank : shared.ranks) json.Int(rank);
  json.EndArray();
  json.Key("hosts");
  json.BeginArray();
  for (const int rank : shared.ranks) json.String(labels_.Host(line.generation, rank));
  json.EndArray();
  EndJson(line, json);
}

void LogPrinter::Enter(uint64_t generation) {
  if (!labels_.Enter(generation)) return;
  EndLine();
  context_.out().flush();  // the lines of the generation before come first
  context_.err() << "dpctl: job " << job_ << " goes on as generation " << generation << std::endl;
}

void LogPrinter::PrintText(const LogLine& line, const std::string& label) {
  const std::string time =
      timestamps_ ? absl::StrCat(line.time ? FormatLineTime(*line.time) : "-", " ") : "";
  screen_line_.Print(context_.out(), line, absl::StrCat(time, label, " "), harmless_);
}

void LogPrinter::BeginJson(const LogLine& line, JsonWriter& json) {
  json.BeginObject();
  json.Field("generation", line.generation);
}

void LogPrinter::EndJson(const LogLine& line, JsonWriter& json) {
  json.Field("stream", NameOf(line.stream));
  json.Key("time");
  line.time ? json.String(FormatLineTime(*line.time)) : json.Null();
  if (line.cut_bytes > 0) json.Field("cutBytes", line.cut_bytes);
  if (line.end == LogLine::End::kContinued) json.Field("continued", true);
  json.Field("line", line.text);
  json.EndObject();
}

}  // namespace dp::ctl
