#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/file_descriptor.h"

// Unix sockets between the ranks of a host, which carry open files. Their names are abstract:
// nothing is left in the file system, whoever is killed. Sockets keep the borders of messages and
// never block. Errors: Unavailable, with the system's words.

namespace dp::engine {

// A message carries at most so many files (the kernel's SCM_MAX_FD).
inline constexpr size_t kFilesPerMessageMax = 253;

struct LocalMessage {
  std::string bytes;
  std::vector<FileDescriptor> files;
};

// A socket with room for `backlog` callers that nobody has accepted yet.
absl::StatusOr<FileDescriptor> ListenLocally(absl::string_view name, int backlog);
// Returns at once, before anybody accepts. Errors: also if nobody listens, or there is no room.
absl::StatusOr<FileDescriptor> ConnectLocally(absl::string_view name);
// The next caller. Errors: NotFound there is none.
absl::StatusOr<FileDescriptor> AcceptLocally(const FileDescriptor& listener);

// The user of the process at the other end, when it connected or began to listen.
absl::StatusOr<uid_t> UserAtOtherEnd(const FileDescriptor& socket);

absl::Status SendMessage(const FileDescriptor& socket, absl::string_view bytes,
                         absl::Span<const int> files);
// Errors: NotFound nothing has arrived; Aborted the other end is closed; ResourceExhausted the
// message, or its files, did not fit.
absl::StatusOr<LocalMessage> ReceiveMessage(const FileDescriptor& socket);

}  // namespace dp::engine
