#include "client/dpctl/view/open_line.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/dpctl/view/terminal_text.h"

namespace dp::ctl {
namespace {

// A carriage return before the line break is part of the line's end.
std::string Relabelled(absl::string_view text, LogLine::End end, const std::string& label) {
  const bool dos = end == LogLine::End::kLineBreak && absl::EndsWith(text, "\r");
  text.remove_suffix(dos ? 1 : 0);
  return absl::StrCat(absl::StrReplaceAll(text, {{"\r", absl::StrCat("\r", label)}}),
                      dos ? "\r" : "");
}

}  // namespace

void OpenLine::Print(std::ostream& stream, const LogLine& line, const std::string& label,
                     bool harmless) {
  const std::string text = Relabelled(harmless ? HarmlessText(line) : line.text, line.end, label);
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

std::string OpenLine::HarmlessText(const LogLine& line) {
  const auto before = cut_.extract(line.of());
  const std::string text = absl::StrCat(before.empty() ? "" : before.mapped(), line.text);
  if (line.end != LogLine::End::kContinued) return TerminalText(text);
  std::string cut;
  std::string shown = TerminalText(text, &cut);
  if (!cut.empty()) cut_[line.of()] = std::move(cut);
  return shown;
}

void OpenLine::End() {
  if (stream_ != nullptr) *std::exchange(stream_, nullptr) << '\n';
}

}  // namespace dp::ctl
