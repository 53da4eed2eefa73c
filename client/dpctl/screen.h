#pragma once

#include <string>

#include "client/dpctl/context.h"

namespace dp::ctl {

// Lines above a bar that stays at the bottom while they pass. The bar is drawn on standard error,
// and only where that is a terminal. Not thread-safe.
class Screen {
 public:
  explicit Screen(Terminal& terminal) : terminal_(terminal) {}
  ~Screen() { Clear(); }

  void Line(std::ostream& stream, const std::string& text);
  void Bar(const std::string& text);
  int columns() const { return terminal_.columns; }

 private:
  void Clear();
  void Draw();

  Terminal& terminal_;
  std::string bar_;
  bool drawn_ = false;
};

}  // namespace dp::ctl
