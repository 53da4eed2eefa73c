#pragma once

#include <optional>
#include <ostream>
#include <string>

#include "client/dpctl/view/log_lines.h"

namespace dp::ctl {

// Prints lines of many ranks on one screen, with a label before each line. A line in pieces stays
// open: its next piece follows at once, and any other output begins a new line. A carriage return
// moves the cursor over the label, so the label is printed again behind it. Not thread-safe.
class OpenLine {
 public:
  void Print(std::ostream& stream, const LogLine& line, const std::string& label);
  // Makes the next output begin a line.
  void End();
  bool open() const { return stream_ != nullptr; }

 private:
  std::ostream* stream_ = nullptr;  // the owner's stream with the open line; null: none is open
  LogLine::Stream whose_;           // the stream of ranks' output that it belongs to
};

}  // namespace dp::ctl
