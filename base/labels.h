#pragma once

#include <compare>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// Labels of workers, and the constraints by which jobs choose workers. Pure.

namespace dp {

// By key. A value may be empty.
using Labels = std::map<std::string, std::string>;

// More constraints of one job are a mistake.
inline constexpr size_t kLabelsMax = 64;
// The longest key, and the longest value; Kubernetes has the same limit for values.
inline constexpr size_t kLabelBytesMax = 63;

// The label of a worker whose ranks run as a user who can read an administrator's credential for
// the cluster. Everybody who may submit jobs to it can thus become administrator. The worker's
// daemon sets it; daemons of earlier releases never do.
inline constexpr char kAdminReadable[] = "admin-readable";

// A trainer ignores fields of a job that are newer than itself, and would train something else.
// Each release that adds such fields has the next level (proto/job/trainer_level.h). A worker has
// the label of each level that its trainer understands. The coordinator sets these labels, from the
// level in the daemon's registration, and nobody is shown them. A job that needs a level implicitly
// requires its label. Jobs and workers of releases without levels have none of them.
inline constexpr char kTrainerLevelPrefix[] = "trainer-level-";
std::string TrainerLevelLabel(int level);

// The rule for keys, in words.
inline constexpr char kLabelKeyRule[] =
    "the key of a label, of 1 to 63 letters, digits, '-', '_', '.' and '/'";
bool IsLabelKey(absl::string_view text);

struct Label {
  std::string key;
  std::string value;

  bool operator==(const Label&) const = default;
};

// Parses "rack=r1"; key and value consist of letters, digits, '-', '_', '.' and '/'.
// Errors: InvalidArgument shows the text and the expected form.
absl::StatusOr<Label> ParseLabel(absl::string_view text);

// A condition on one label of a worker.
struct LabelConstraint {
  enum class How { kEquals, kDiffers, kPresent, kAbsent };
  How how = How::kPresent;
  std::string key;
  std::string value;  // with kEquals and kDiffers

  auto operator<=>(const LabelConstraint&) const = default;
};

// Parses "zone=b", "zone!=b" (also satisfied without a zone), "nvlink", "!spot".
// Errors: as ParseLabel.
absl::StatusOr<LabelConstraint> ParseConstraint(absl::string_view text);

bool Satisfies(const Labels& labels, const LabelConstraint& constraint);

// In the form that ParseConstraint reads.
std::string ToString(const LabelConstraint& constraint);

}  // namespace dp
