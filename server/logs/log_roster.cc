#include "server/logs/log_roster.h"

#include <optional>
#include <system_error>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "server/logs/log_disk.h"

namespace dp::server {
namespace {

// Formats "rank TAB worker TAB host TAB spool TAB whole"; texts are escaped.
std::string ToRosterLine(const RankOutput& output) {
  return absl::StrCat(output.rank, "\t", absl::CEscape(output.worker), "\t",
                      absl::CEscape(output.host), "\t", absl::CEscape(output.spool), "\t",
                      output.whole ? 1 : 0, "\n");
}

std::optional<RankOutput> FromRosterLine(absl::string_view line) {
  const std::vector<absl::string_view> fields = absl::StrSplit(line, '\t');
  RankOutput output;
  if (fields.size() < 5 || !absl::SimpleAtoi(fields[0], &output.rank) ||
      !absl::CUnescape(fields[1], &output.worker) || !absl::CUnescape(fields[2], &output.host) ||
      !absl::CUnescape(fields[3], &output.spool)) {
    return std::nullopt;
  }
  output.whole = fields[4] == "1";
  return output;
}

}  // namespace

absl::StatusOr<LogRoster> LogRoster::Open(std::filesystem::path path) {
  LogRoster roster(std::move(path));
  DP_ASSIGN_OR_RETURN(const uint64_t bytes, SizeOf(roster.path_));
  if (bytes == 0) return roster;
  DP_ASSIGN_OR_RETURN(const std::string text, ReadAt(roster.path_, 0, bytes));
  roster.Recover(text);
  return roster;
}

void LogRoster::Recover(absl::string_view text) {
  const size_t last = text.rfind('\n');
  size_ = last == text.npos ? 0 : last + 1;
  for (const absl::string_view line : absl::StrSplit(text.substr(0, size_), '\n')) {
    const std::optional<RankOutput> output = FromRosterLine(line);
    if (output) ranks_.insert_or_assign(output->rank, *output);
  }
}

void LogRoster::Note(const RankOutput& output) {
  RankOutput merged = output;
  const auto known = ranks_.find(output.rank);
  if (known != ranks_.end()) {
    merged = known->second;
    if (merged.worker.empty()) merged.worker = output.worker;
    if (merged.host.empty()) merged.host = output.host;
    if (merged.spool.empty()) merged.spool = output.spool;
    merged.whole = merged.whole || output.whole;
    if (merged == known->second) return;
  }
  unwritten_ += ToRosterLine(merged);
  ranks_.insert_or_assign(output.rank, std::move(merged));
}

absl::Status LogRoster::Write() {
  if (unwritten_.empty() && durable_) return absl::OkStatus();
  durable_ = false;
  if (!unwritten_.empty()) {
    DP_RETURN_IF_ERROR(MakeFolder(path_.parent_path()));
    DP_RETURN_IF_ERROR(WriteAt(path_, size_, unwritten_));
  }
  DP_RETURN_IF_ERROR(SyncPath(path_));
  if (!name_durable_) DP_RETURN_IF_ERROR(SyncNames(path_));
  size_ += unwritten_.size();
  unwritten_.clear();
  durable_ = name_durable_ = true;
  return absl::OkStatus();
}

const RankOutput* LogRoster::Find(int rank) const {
  const auto known = ranks_.find(rank);
  return known == ranks_.end() ? nullptr : &known->second;
}

}  // namespace dp::server
