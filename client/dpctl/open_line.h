#pragma once

#include <optional>
#include <ostream>
#include <string>

#include "client/dpctl/log_lines.h"

namespace dp::ctl {

// Prints lines of many ranks on one screen, with a label before each line. A line that comes in
// pieces stays open: its next piece follows at once, and anything else begins a new line. A
// carriage return takes the cursor back over the label, so the label is printed again behind it.
// Not thread-safe.
class OpenLine {
 public:
  void Print(std::ostream& stream, const LogLine& line, const std::string& label);
  // The next output begins a line.
  void End();
  bool open() const { return stream_ != nullptr; }

 private:
  std::ostream* stream_ = nullptr;  // the owner's, with the open line; null: none is open
  LogLine::Stream whose_;           // then
};

}  // namespace dp::ctl
