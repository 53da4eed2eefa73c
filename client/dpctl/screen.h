#pragma once

#include <string>

#include "client/dpctl/context.h"
#include "client/dpctl/open_line.h"

namespace dp::ctl {

// Lines above a bar that stays at the bottom while they pass. The bar is drawn on standard error,
// only where that is a terminal, and not while a rank's line is open. Not thread-safe.
class Screen {
 public:
  explicit Screen(Terminal& terminal) : terminal_(terminal) {}
  ~Screen() {
    Clear();
    EndLine();
  }

  void Line(std::ostream& stream, const std::string& text);
  // A line of a rank, or a piece of it, behind `label`.
  void Line(std::ostream& stream, const LogLine& line, const std::string& label);
  // Ends a line of which only pieces have come.
  void EndLine();
  void Bar(const std::string& text);
  int columns() const { return terminal_.columns; }

 private:
  void Clear();
  void Draw();

  Terminal& terminal_;
  std::string bar_;
  bool drawn_ = false;
  OpenLine line_;
};

}  // namespace dp::ctl
