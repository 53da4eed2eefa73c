#pragma once

#include <string>

#include "client/dpctl/context.h"
#include "client/dpctl/view/open_line.h"

namespace dp::ctl {

// Shows lines above a bar that stays at the bottom. The bar is drawn on standard error, only if
// that is a terminal, and not while a rank's line is open. Not thread-safe.
class Screen {
 public:
  explicit Screen(Terminal& terminal) : terminal_(terminal) {}
  ~Screen() {
    Clear();
    EndLine();
  }

  void Line(std::ostream& stream, const std::string& text);
  // Shows a line of a rank, or a piece of one, behind `label`.
  void Line(std::ostream& stream, const LogLine& line, const std::string& label);
  // Ends a line of which only pieces were shown.
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
