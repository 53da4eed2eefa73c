#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace dp::library {

// Which parameters of a module have a gradient in a backward, and which need none. Pure.
class BackwardProgress {
 public:
  struct Rules {
    bool find_unused_parameters = false;
    bool static_graph = false;
  };

  BackwardProgress(std::vector<std::string> names, const Rules& rules);

  // The gradient of `parameter` is complete. Returns the parameters that count as complete now, in
  // order: in a backward's first call also those that a static graph never uses.
  // Errors: InvalidArgument no such parameter, or reported before; FailedPrecondition a static
  // graph does not use it.
  absl::StatusOr<std::vector<size_t>> Report(size_t parameter);
  // Ends a backward that only adds to this rank's gradients.
  void FinishWithoutSync() { begun_ = false; }
  // Ends a backward. Returns the parameters that count as complete without a gradient.
  // Errors: FailedPrecondition names those that need one, and the option.
  absl::StatusOr<std::vector<size_t>> Finish();

  // Whether a backward has reported gradients and is not finished.
  bool begun() const { return begun_; }
  // By parameter, 1 if it had a gradient on this rank since the last ForgetUse.
  absl::Span<const uint8_t> used() const { return used_; }
  // After a Finish: begins to count uses anew. A static graph keeps those of its first backward.
  void ForgetUse();
  // Every parameter once, in the order of the last finished backward.
  const std::vector<size_t>& order() const { return order_; }

 private:
  std::vector<size_t> BeginIfNeeded();
  std::vector<size_t> Unready() const;
  std::string NamesOf(const std::vector<size_t>& parameters) const;

  const std::vector<std::string> names_;
  const Rules rules_;
  bool begun_ = false;
  bool graph_known_ = false;      // of a static graph: after its first backward
  std::vector<bool> never_used_;  // by parameter; of a static graph, on this rank
  std::vector<bool> ready_;       // by parameter, in this backward
  std::vector<uint8_t> used_;     // by parameter
  std::vector<size_t> order_;
};

}  // namespace dp::library
