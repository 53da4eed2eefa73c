#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "dp/v1/metrics.pb.h"

namespace dp::trainer {

// A rank's reports. Writes each metric as one JSON line to the metrics file. Events for people also
// become a readable line on standard output. Not thread-safe.
class MetricLog {
 public:
  // Opens `path` for appending. With an empty path only the readable lines are written. Errors: the
  // system's reason, with the path.
  static absl::StatusOr<MetricLog> Open(const std::string& path, const Clock& clock);

  // Adds the time and writes at once, so a rank that is killed loses nothing it has reported. A
  // full disk must not stop training: a metric that cannot be written is dropped, with one warning.
  void Write(v1::Metric metric);

 private:
  MetricLog(FileDescriptor file, const Clock& clock) : file_(std::move(file)), clock_(clock) {}
  void WriteLine(const v1::Metric& metric);

  FileDescriptor file_;  // invalid: no metrics file
  const Clock& clock_;
  bool partial_ = false;  // the file ends with a partial line
  bool warned_ = false;
};

// The readable form, for example "epoch 2/4 loss 0.3127 8412 images/s", in tokens/s for texts.
// Empty for an event that is not for people, such as "step".
std::string Readable(const v1::Metric& metric);

}  // namespace dp::trainer
