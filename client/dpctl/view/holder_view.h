#pragma once

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

// How commands name a holder of certificates. A person and a worker may share a name, so the name
// of a worker stands behind "worker/". Pure.

namespace dp::ctl {

constexpr absl::string_view kWorkerPrefix = "worker/";

struct HolderName {
  std::string name;
  bool worker = false;
};

inline HolderName ParseHolder(absl::string_view text) {
  if (!absl::StartsWith(text, kWorkerPrefix)) return {std::string(text), false};
  return {std::string(text.substr(kWorkerPrefix.size())), true};
}

inline const char* KindOf(bool worker) { return worker ? "worker" : "person"; }

// ParseHolder reads it.
inline std::string HolderText(const std::string& name, bool worker) {
  return worker ? absl::StrCat(kWorkerPrefix, name) : name;
}

}  // namespace dp::ctl
