#include "client/dpctl/view/open_line.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace dp::ctl {
namespace {

// A carriage return before the line break is part of the line's end.
std::string Relabelled(const LogLine& line, const std::string& label) {
  const bool dos = line.end == LogLine::End::kLineBreak && absl::EndsWith(line.text, "\r");
  const absl::string_view text = absl::string_view(line.text).substr(0, line.text.size() - dos);
  return absl::StrCat(absl::StrReplaceAll(text, {{"\r", absl::StrCat("\r", label)}}),
                      dos ? "\r" : "");
}

}  // namespace

void OpenLine::Print(std::ostream& stream, const LogLine& line, const std::string& label) {
  const std::string text = Relabelled(line, label);
  const bool goes_on = open() && whose_ == line.of();
  if (!goes_on) {
    if (line.rest && text.empty()) return;  // the end of a line that another line has ended
    End();
    if (!absl::StartsWith(text, absl::StrCat("\r", label))) stream << label;
  }
  stream << text;
  stream_ = &stream;
  whose_ = line.of();
  if (line.end != LogLine::End::kContinued) End();
}

void OpenLine::End() {
  if (stream_ != nullptr) *std::exchange(stream_, nullptr) << '\n';
}

}  // namespace dp::ctl
