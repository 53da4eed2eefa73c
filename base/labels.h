#pragma once

#include <compare>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// What tells one worker from another, and what a job asks of it. Pure.

namespace dp {

// By key. A value may be empty.
using Labels = std::map<std::string, std::string>;

// More on one worker, or more constraints of one job, are a mistake of whatever wrote them.
inline constexpr size_t kLabelsMax = 64;
// Of a key, and of a value; what Kubernetes allows of the latter.
inline constexpr size_t kLabelBytesMax = 63;

// What a key looks like.
inline constexpr char kLabelKeyRule[] =
    "the key of a label, of 1 to 63 letters, digits, '-', '_', '.' and '/'";
bool IsLabelKey(absl::string_view text);

struct Label {
  std::string key;
  std::string value;

  bool operator==(const Label&) const = default;
};

// "rack=r1"; a key and a value have letters, digits, '-', '_', '.' and '/'.
// Errors: InvalidArgument names the text and what is expected.
absl::StatusOr<Label> ParseLabel(absl::string_view text);

// What one label of a worker must be.
struct LabelConstraint {
  enum class How { kEquals, kDiffers, kPresent, kAbsent };
  How how = How::kPresent;
  std::string key;
  std::string value;  // with kEquals and kDiffers

  auto operator<=>(const LabelConstraint&) const = default;
};

// "zone=b", "zone!=b" (also where there is no zone), "nvlink", "!spot".
// Errors: as ParseLabel.
absl::StatusOr<LabelConstraint> ParseConstraint(absl::string_view text);

bool Satisfies(const Labels& labels, const LabelConstraint& constraint);

// As ParseConstraint reads it.
std::string ToString(const LabelConstraint& constraint);

}  // namespace dp
