#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace dp::ctl {

// Rows of text under headings. Columns are two blanks apart and as wide as their widest cell looks;
// nothing is cut off. An empty cell shows as "-", and control characters as their escapes. Not
// thread-safe.
class Table {
 public:
  explicit Table(std::vector<std::string> headings) : rows_{std::move(headings)} {}

  // As many cells as there are headings.
  void Add(std::vector<std::string> cells);
  void Print(std::ostream& out, bool with_headings, const std::string& indent = "") const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the headings first
};

}  // namespace dp::ctl
