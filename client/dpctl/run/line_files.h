#pragma once

#include <fstream>
#include <map>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "client/dpctl/view/log_lines.h"

namespace dp::ctl {

// Files with the lines of ranks, laid out as torchrun's: DIR/attempt_0/RANK/stdout.log. The attempt
// counts generations from 0; RANK is the rank in the whole job. The files hold the bytes that the
// ranks wrote; a line stands for missing bytes. Not thread-safe.
class LineFiles {
 public:
  explicit LineFiles(std::string dir) : dir_(std::move(dir)) {}

  // Adds the line to the file of its rank and stream.
  // Errors: Internal names the file that cannot be written, and why.
  absl::Status Add(const LogLine& line);

  const std::string& dir() const { return dir_; }

 private:
  using Key = std::tuple<uint64_t, int, v1::LogStream>;

  std::string dir_;
  std::map<Key, std::ofstream> open_;
};

}  // namespace dp::ctl
