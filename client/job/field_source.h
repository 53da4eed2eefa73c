#pragma once

#include <string>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/job/field_check.h"

namespace dp::client {

// Counted from 1.
struct Place {
  int line = 0;
  int column = 0;
};

// The origin of each field of a job, so that an error can point at it. An origin is a place in the
// job file, or an override or a flag on the command line. Not thread-safe.
class FieldSource final : public FieldOrigins {
 public:
  explicit FieldSource(std::string file) : file_(std::move(file)) {}

  void Note(const std::string& path, Place place) { places_[path] = place; }
  void NoteOverride(const std::string& path) { overrides_.insert(path); }
  // The field's value comes from a flag or a variable: errors name that instead of the field.
  void NoteName(const std::string& path, const std::string& name) { names_[path] = name; }

  bool Given(const std::string& path) const override { return places_.contains(path); }

  // InvalidArgument "job.yaml:7:11: <what>". A field that was not given has the place of the
  // nearest field around it. For an element of a list, an override inside it is the place.
  absl::Status Error(const std::string& path, absl::string_view what) const override;
  // As Error, for a thing at `place` inside the field `path`, such as one of its keys.
  absl::Status ErrorAt(const std::string& path, Place place, absl::string_view what) const;

 private:
  // The override that contains `path`; empty if none.
  std::string OverrideOf(std::string path) const;
  // The first override inside `path`; empty if none.
  std::string OverrideBelow(const std::string& path) const;

  const std::string file_;
  absl::btree_map<std::string, Place> places_;
  absl::btree_set<std::string> overrides_;
  absl::btree_map<std::string, std::string> names_;
};

}  // namespace dp::client
