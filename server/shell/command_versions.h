#pragma once

#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "server/shell/journal_record.pb.h"

// What the commands in a journal mean may change with a release; what those on record mean may not.
// So each record says which version of its command it holds, and the machine keeps every meaning
// that a journal may ask for (docs/journal.md). Pure; any thread.

namespace dp::server {

// The newest version of each command that has had more than one.
using CommandVersions = std::map<journal::JournalRecord::ActionCase, uint32_t>;
const CommandVersions& KnownVersions();

// Of the command in `record`, from 1.
uint32_t VersionOf(const journal::JournalRecord& record);

// Errors: FailedPrecondition it is above what `known` has, with what to do.
absl::Status CheckVersion(const journal::JournalRecord& record,
                          const CommandVersions& known = KnownVersions());

}  // namespace dp::server
