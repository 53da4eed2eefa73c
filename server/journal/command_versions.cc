#include "server/journal/command_versions.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/core/command.h"

namespace dp::server {
namespace {

using Record = journal::JournalRecord;

std::string NameOfCommand(const Record& record) {
  const auto* field = Record::descriptor()->FindFieldByNumber(record.action_case());
  return field == nullptr ? "its command" : std::string(field->name());
}

}  // namespace

const CommandVersions& KnownVersions() {
  static const CommandVersions& known =
      *new CommandVersions{{Record::kStartEpoch, core::StartEpoch::kVersion},
                           {Record::kReportRank, core::ReportRank::kVersion},
                           {Record::kLoseWorker, core::LoseWorker::kVersion},
                           {Record::kAskHandover, core::AskHandover::kVersion},
                           {Record::kForgetJob, core::ForgetJob::kVersion}};
  return known;
}

uint32_t VersionOf(const Record& record) { return std::max<uint32_t>(record.version(), 1); }

absl::Status CheckVersion(const Record& record, const CommandVersions& known) {
  const auto newest = known.find(record.action_case());
  const uint32_t up_to = newest == known.end() ? 1 : newest->second;
  if (VersionOf(record) <= up_to) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      NameOfCommand(record), " has version ", VersionOf(record), ", this release knows up to ",
      up_to, "; start the release that wrote it, or a later one"));
}

}  // namespace dp::server
