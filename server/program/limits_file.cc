#include "server/program/limits_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/name.h"
#include "base/status.h"

namespace dp::server {
namespace {

constexpr char kExpected[] =
    "expected 'user|queue NAME|* slots=N|jobs=N|unfinished=N ...', and unfinished for users only";

absl::Status Wrong(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(what, "; ", kExpected));
}

// Null: there is no such limit.
int* PartNamed(const std::string& name, bool of_user, core::Limit& limit) {
  if (name == "slots") return &limit.slots;
  if (name == "jobs") return &limit.jobs;
  return name == "unfinished" && of_user ? &limit.unfinished : nullptr;
}

// `given`: the parts that the line has set already.
absl::Status SetPart(absl::string_view word, bool of_user, core::Limit& limit,
                     std::set<std::string>& given) {
  const std::pair<std::string, std::string> sides = absl::StrSplit(word, absl::MaxSplits('=', 1));
  int* part = PartNamed(sides.first, of_user, limit);
  if (!given.insert(sides.first).second) return Wrong(absl::StrCat(sides.first, " is given twice"));
  if (part != nullptr && absl::SimpleAtoi(sides.second, part) && *part >= 0) {
    return absl::OkStatus();
  }
  return Wrong(absl::StrCat("'", word, "' is no limit"));
}

absl::Status AddLine(absl::string_view line, core::Limits& limits) {
  const std::vector<std::string> words =
      absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipWhitespace());
  if (words.empty()) return absl::OkStatus();
  const bool user = words[0] == "user";
  if (words.size() < 2 || (!user && words[0] != "queue")) {
    return Wrong(absl::StrCat("'", words[0], "' begins no limit"));
  }
  if (words.size() < 3) return Wrong(absl::StrCat(words[0], " ", words[1], " is given no limit"));
  if (!user && words[1] != "*" && !IsName(words[1])) {
    return Wrong(
        absl::StrCat("'", words[1], "' is no queue of any job, whose name is ", kNameRule));
  }
  core::Limit limit;
  std::set<std::string> given;
  for (size_t i = 2; i < words.size(); ++i) {
    DP_RETURN_IF_ERROR(SetPart(words[i], user, limit, given));
  }
  bool twice = false;
  if (words[1] == "*") {
    auto& each = user ? limits.each_user : limits.each_queue;
    twice = each.has_value();
    each = limit;
  } else {
    twice = !(user ? limits.users : limits.queues).emplace(words[1], limit).second;
  }
  return twice ? Wrong(absl::StrCat(words[0], " ", words[1], " is given twice")) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<core::Limits> ParseLimits(absl::string_view text, const std::string& name) {
  core::Limits limits;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const absl::Status status = AddLine(line.substr(0, line.find('#')), limits);
    if (status.ok()) continue;
    return absl::InvalidArgumentError(absl::StrCat(name, ":", number, ": ", status.message()));
  }
  return limits;
}

absl::StatusOr<core::Limits> ReadLimits(const std::string& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  if (in) return ParseLimits(text.str(), file);
  return absl::NotFoundError(
      absl::StrCat("--limits ", file, " cannot be read: ", std::strerror(errno)));
}

}  // namespace dp::server
