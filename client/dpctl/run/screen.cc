#include "client/dpctl/run/screen.h"

namespace dp::ctl {
namespace {

// Back to the first column, and clear to the end of the line.
constexpr char kClearLine[] = "\r\x1b[K";

}  // namespace

void Screen::Line(std::ostream& stream, const std::string& text) {
  Clear();
  EndLine();
  stream << text << '\n';
  stream.flush();
  Draw();
}

void Screen::Line(std::ostream& stream, const LogLine& line, const std::string& label) {
  Clear();
  line_.Print(stream, line, label, /*harmless=*/terminal_.is_tty(stream));
  stream.flush();
  Draw();
}

void Screen::EndLine() { line_.End(); }

void Screen::Bar(const std::string& text) {
  bar_ = text;
  Clear();
  Draw();
}

void Screen::Clear() {
  if (drawn_) terminal_.err << kClearLine << std::flush;
  drawn_ = false;
}

void Screen::Draw() {
  if (!terminal_.err_is_tty || bar_.empty() || line_.open()) return;
  terminal_.err << bar_ << std::flush;
  drawn_ = true;
}

}  // namespace dp::ctl
