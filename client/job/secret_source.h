#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dp::client {

// Where dpctl reads the value of a secret.
struct SecretSource {
  std::string name;
  std::string file = {};  // empty: dpctl's own variable `name`
};

// Parses "NAME" or "NAME=FILE". Whether the name is valid is checked with the job.
// Errors: InvalidArgument there is no file behind '='.
absl::StatusOr<SecretSource> ParseSecretSource(absl::string_view text);

// The value, without the line break at a file's end. A relative file starts at `dir`. Blocks while
// a pipe or terminal is open and has no data, until the descriptor `stop` is readable; -1 for none.
// Errors: Cancelled by `stop`. InvalidArgument names the secret, and the remedy. It shows neither
// the value nor what stands behind '=': a user may have written the value there.
absl::StatusOr<std::string> ReadSecret(const SecretSource& source, const std::string& dir,
                                       int stop = -1);

// Whether the mode of the source's file lets every user of this machine read it. False for a pipe,
// a terminal, a variable and a file that is not there.
bool IsReadableByAll(const SecretSource& source, const std::string& dir);

}  // namespace dp::client
