#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace dp {

// Where the fields of a job come from. A field is named by its path in a job file, such as
// "train.model.layers[1].linear".
class FieldOrigins {
 public:
  virtual ~FieldOrigins() = default;
  // Whether the owner wrote the field, even with its default value.
  virtual bool Given(const std::string& path) const = 0;
  // InvalidArgument: what is wrong with the field, with its place if it has one.
  virtual absl::Status Error(const std::string& path, absl::string_view what) const = 0;
};

// The common part of the checks of a job's sections. Each rule names a field by its path. The first
// broken rule becomes an error at the field's place, with the field's value and what is allowed.
// Not thread-safe; the origins must outlive it.
class FieldCheck {
 public:
  // Errors: InvalidArgument the first broken rule.
  const absl::Status& first() const { return first_; }

 protected:
  explicit FieldCheck(const FieldOrigins& origins) : origins_(origins) {}

  // Ranks start on other hosts, in directories of their own. Empty means not set.
  void Absolute(const std::string& path, const std::string& value) {
    if (value.find('\0') != std::string::npos)
      Fail(path, absl::StrCat(path, " has a zero byte; a path cannot"));
    if (!value.empty() && value.front() != '/')
      Fail(path, Wrong(path, absl::StrCat("\"", value, "\""),
                       "an absolute path, as ranks start in other directories than dpctl"));
  }
  void Between(const std::string& path, int64_t value, int64_t min, int64_t max) {
    if (value < min || value > max) Fail(path, Wrong(path, value, absl::StrCat(min, " to ", max)));
  }
  template <typename Number>
  void AtLeast(const std::string& path, Number value, Number min) {
    if (!(value >= min)) Fail(path, Wrong(path, value, absl::StrCat(min, " or more")));
  }
  void AtLeast(const std::string& path, double value, int min) {
    AtLeast<double>(path, value, min);
  }
  void AtLeast(const std::string& path, int64_t value, int min) {
    AtLeast<int64_t>(path, value, min);
  }
  void Above(const std::string& path, double value, double bound) {
    if (!(value > bound)) Fail(path, Wrong(path, value, absl::StrCat("more than ", bound)));
  }
  void OneOf(const std::string& path, const std::string& value,
             const std::vector<std::string>& allowed) {
    if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
    Fail(path, Wrong(path, absl::StrCat("\"", value, "\""), absl::StrJoin(allowed, ", ")));
  }

  static std::string Quoted(const std::string& text) { return absl::StrCat("\"", text, "\""); }
  static std::string Wrong(const std::string& path, const absl::AlphaNum& value,
                           absl::string_view allowed) {
    return absl::StrCat(path, " is ", value, "; expected ", allowed);
  }
  static std::string Wrong(const std::string& path, absl::Duration value,
                           absl::string_view allowed) {
    return Wrong(path, absl::FormatDuration(value), allowed);
  }

  void Fail(const std::string& path, absl::string_view what) {
    if (first_.ok()) first_ = origins_.Error(path, what);
  }
  void Take(const absl::Status& error) { first_.Update(error); }
  bool Given(const std::string& path) const { return origins_.Given(path); }
  const FieldOrigins& origins() const { return origins_; }

 private:
  const FieldOrigins& origins_;
  absl::Status first_;
};

}  // namespace dp
