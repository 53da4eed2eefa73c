#include "worker/engine/collectives/gloo/interfaces.h"

#include <net/if.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace dp::engine {
namespace {

std::string Listed(absl::string_view list) {
  return list.empty() ? "one by default" : absl::StrCat("'", list, "'");
}

// A rank without a list uses one interface.
size_t CountOf(absl::string_view list) { return std::max<size_t>(InterfaceNames(list).size(), 1); }

}  // namespace

std::vector<std::string> InterfaceNames(absl::string_view list) {
  std::vector<std::string> names;
  for (const absl::string_view name : absl::StrSplit(list, ',', absl::SkipWhitespace()))
    names.emplace_back(absl::StripAsciiWhitespace(name));
  return names;
}

absl::Status CheckInterfacesExist(absl::Span<const std::string> wanted,
                                  absl::Span<const std::string> existing) {
  for (const std::string& name : wanted)
    if (std::find(existing.begin(), existing.end(), name) == existing.end())
      return absl::InvalidArgumentError(absl::StrCat(
          "interface '", name, "' does not exist; this host has ", absl::StrJoin(existing, ", ")));
  return absl::OkStatus();
}

std::vector<std::string> InterfacesOfThisHost() {
  std::vector<std::string> names;
  struct if_nameindex* const interfaces = if_nameindex();
  if (interfaces == nullptr) return names;
  for (const auto* each = interfaces; each->if_index != 0; ++each)
    names.emplace_back(each->if_name);
  if_freenameindex(interfaces);
  return names;
}

absl::Status CheckListsAsLong(absl::Span<const std::string> lists) {
  for (size_t r = 1; r < lists.size(); ++r)
    if (CountOf(lists[r]) != CountOf(lists[0]))
      return absl::FailedPreconditionError(
          absl::StrCat("rank 0 lists the interfaces ", Listed(lists[0]), ", rank ", r, " lists ",
                       Listed(lists[r]), "; give every rank as many"));
  return absl::OkStatus();
}

}  // namespace dp::engine
