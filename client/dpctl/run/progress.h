#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "dp/v1/metrics.pb.h"

namespace dp::ctl {

// The progress of a training job, from its metric lines. Pure; not thread-safe.
class Progress {
 public:
  // Takes one line of a METRICS stream; ignores a line that is no metric.
  void Add(absl::string_view json);

  // "epoch 2/4 [=========>          ] step 512/1876  loss 0.412  5120 images/s", at most `columns`
  // wide. Empty before the first step.
  std::string Bar(int columns) const;

  // The accuracy on the whole test set in the last evaluation.
  std::optional<double> test_accuracy() const { return test_accuracy_; }

 private:
  std::string EpochText(int epoch) const;

  int epochs_total_ = 0;
  int steps_total_ = 0;
  v1::Metric last_step_;
  std::optional<double> test_accuracy_;
};

}  // namespace dp::ctl
