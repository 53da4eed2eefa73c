#pragma once

#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "server/journal/journal_record.pb.h"

// A release may change the meaning of a command, but not of the commands on record. Each record
// therefore holds the version of its command, and the machine keeps every meaning that a journal
// may need (docs/journal.md). Pure; any thread.

namespace dp::server {

// The newest version of each command that has had more than one.
using CommandVersions = std::map<journal::JournalRecord::ActionCase, uint32_t>;
const CommandVersions& KnownVersions();

// The version of the command in `record`, from 1.
uint32_t VersionOf(const journal::JournalRecord& record);

// Errors: FailedPrecondition the version is above the newest in `known`; the message says what to
// do.
absl::Status CheckVersion(const journal::JournalRecord& record,
                          const CommandVersions& known = KnownVersions());

}  // namespace dp::server
