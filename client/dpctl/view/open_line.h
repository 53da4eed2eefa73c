#pragma once

#include <map>
#include <ostream>
#include <string>

#include "client/dpctl/view/log_lines.h"

namespace dp::ctl {

// Prints lines of many ranks on one screen, with a label before each line. A line in pieces stays
// open: its next piece follows at once, and any other output begins a new line. A carriage return
// moves the cursor over the label, so the label is printed again behind it. Not thread-safe.
class OpenLine {
 public:
  // `harmless`: in the form of TerminalText, for a terminal; else with every byte.
  void Print(std::ostream& stream, const LogLine& line, const std::string& label,
             bool harmless = false);
  // Makes the next output begin a line.
  void End();
  bool open() const { return stream_ != nullptr; }

 private:
  std::string HarmlessText(const LogLine& line);

  std::ostream* stream_ = nullptr;  // the owner's stream with the open line; null: none is open
  LogLine::Stream whose_;           // the stream of ranks' output that it belongs to
  std::map<LogLine::Stream, std::string> cut_;  // ends of pieces that wait for the next ones
};

}  // namespace dp::ctl
