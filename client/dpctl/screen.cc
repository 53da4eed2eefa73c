#include "client/dpctl/screen.h"

namespace dp::ctl {
namespace {

// Back to the first column, and clear to the end of the line.
constexpr char kClearLine[] = "\r\x1b[K";

}  // namespace

void Screen::Line(std::ostream& stream, const std::string& text) {
  Clear();
  stream << text << '\n';
  stream.flush();
  Draw();
}

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
  if (!terminal_.err_is_tty || bar_.empty()) return;
  terminal_.err << bar_ << std::flush;
  drawn_ = true;
}

}  // namespace dp::ctl
