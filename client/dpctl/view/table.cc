#include "client/dpctl/view/table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "client/dpctl/view/display_width.h"
#include "client/dpctl/view/printable.h"

namespace dp::ctl {

void Table::Add(std::vector<std::string> cells) {
  DP_CHECK(cells.size() == rows_[0].size());
  for (std::string& cell : cells) cell = cell.empty() ? "-" : Printable(cell);
  rows_.push_back(std::move(cells));
}

void Table::Print(std::ostream& out, bool with_headings, const std::string& indent) const {
  std::vector<size_t> widths(rows_[0].size());
  for (size_t r = with_headings ? 0 : 1; r < rows_.size(); ++r)
    for (size_t c = 0; c < widths.size(); ++c)
      widths[c] = std::max(widths[c], DisplayWidth(rows_[r][c]));
  for (size_t r = with_headings ? 0 : 1; r < rows_.size(); ++r) {
    out << indent;
    for (size_t c = 0; c < widths.size(); ++c) {
      const bool last = c + 1 == widths.size();
      out << rows_[r][c]
          << (last ? "" : std::string(widths[c] - DisplayWidth(rows_[r][c]) + 2, ' '));
    }
    out << '\n';
  }
}

}  // namespace dp::ctl
