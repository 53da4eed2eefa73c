#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "dp/v1/metrics.pb.h"

namespace dp::trainer {

// What a rank reports: each metric as one JSON line in the metrics file, and the events that people
// follow (start, epoch, eval, end) as a readable line on standard output too. Not thread-safe.
class MetricLog {
 public:
  // Opens `path` for appending; an empty path keeps to the readable lines.
  // Errors: the system's reason, with the path.
  static absl::StatusOr<MetricLog> Open(const std::string& path, const Clock& clock);

  // Stamps the time and writes at once: a rank that is killed loses nothing it has reported. A full
  // disk must not stop training, so what cannot be written is dropped, with one warning.
  void Write(v1::Metric metric);

 private:
  MetricLog(FileDescriptor file, const Clock& clock) : file_(std::move(file)), clock_(clock) {}
  void WriteLine(const v1::Metric& metric);

  FileDescriptor file_;  // invalid: none
  const Clock& clock_;
  bool partial_ = false;  // half a line stands at the end of the file
  bool warned_ = false;
};

// The readable form, as "epoch 2/4 loss 0.3127 8412 images/s", of texts in tokens/s; empty for a
// step.
std::string Readable(const v1::Metric& metric);

}  // namespace dp::trainer
