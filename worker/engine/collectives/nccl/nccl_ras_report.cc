#include "worker/engine/collectives/nccl/nccl_ras_report.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace dp::engine {
namespace {

// People read the message: more than this many of a thousand ranks tell nothing new.
constexpr size_t kWordsMax = 8;
// The limit for one line of text.
constexpr size_t kLineBytesMax = 200;

struct RasRank {
  int rank = -1;
  std::string host;
  int pid = 0;
  bool missing = false;
  bool unresponsive = false;
  bool dead = false;
  int async_error = 0;
  std::map<std::string, int64_t> counts;  // by kind of collective
};

struct RasCommunicator {
  int size = 0;
  std::vector<RasRank> ranks;
};

// NCCL 2.28 leaves out a comma, so its report is not valid JSON. This reads the report line by
// line; each line holds one bracket or one "name": value.
class RasJsonLines {
 public:
  std::vector<RasCommunicator> Read(absl::string_view report) {
    for (const absl::string_view line : absl::StrSplit(report, '\n')) ReadLine(line);
    return std::move(communicators_);
  }

 private:
  void ReadLine(absl::string_view line) {
    line = absl::StripSuffix(absl::StripAsciiWhitespace(line), ",");
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(line, absl::MaxSplits(": ", 1));
    if (!absl::ConsumePrefix(&line, "\"") || halves.second.empty()) return;
    const absl::string_view name = absl::StripSuffix(halves.first.substr(1), "\"");
    Note(name, halves.second);
  }

  void Note(absl::string_view name, absl::string_view value) {
    if (name == "hash") {
      communicators_.emplace_back();
      missing_ = counting_ = false;
    }
    if (communicators_.empty()) return;
    RasCommunicator& communicator = communicators_.back();
    if (name == "size") communicator.size = Number(value);
    if (name == "missing_ranks") missing_ = true;
    if (name == "rank") {
      communicator.ranks.emplace_back();
      communicator.ranks.back().rank = Number(value);
      communicator.ranks.back().missing = missing_;
      counting_ = false;
    }
    if (!communicator.ranks.empty()) NoteOf(communicator.ranks.back(), name, value);
  }

  void NoteOf(RasRank& rank, absl::string_view name, absl::string_view value) {
    if (counting_ && !missing_) rank.counts[std::string(name)] = Number(value);
    if (name == "host") rank.host = std::string(Unquoted(value));
    if (name == "pid") rank.pid = Number(value);
    if (name == "async_error") rank.async_error = Number(value);
    if (name == "unresponsive") rank.unresponsive = value == "true";
    if (name == "considered_dead") rank.dead = value == "true";
    if (name == "collective_counts") counting_ = true;
  }

  static absl::string_view Unquoted(absl::string_view value) {
    return absl::StripSuffix(absl::StripPrefix(value, "\""), "\"");
  }
  static int Number(absl::string_view value) {
    int number = 0;
    return absl::SimpleAtoi(value, &number) ? number : 0;
  }

  std::vector<RasCommunicator> communicators_;
  bool missing_ = false;   // in the list of missing ranks
  bool counting_ = false;  // in a rank's counts
};

bool IsOf(const RasCommunicator& communicator, const RasSelf& self) {
  return communicator.size == self.size &&
         std::any_of(communicator.ranks.begin(), communicator.ranks.end(),
                     [&self](const RasRank& rank) {
                       return rank.rank == self.rank && rank.pid == self.pid;
                     });
}

std::string Missed(const RasRank& rank) {
  return absl::StrCat("rank ", rank.rank, " (host ", rank.host, ", process ", rank.pid, ") is ",
                      rank.dead           ? "considered dead"
                      : rank.unresponsive ? "unresponsive"
                                          : "missing");
}

std::vector<std::string> WordsOf(const RasCommunicator& communicator) {
  std::map<std::string, int64_t> furthest;
  for (const RasRank& rank : communicator.ranks)
    for (const auto& [kind, count] : rank.counts) furthest[kind] = std::max(furthest[kind], count);
  std::vector<std::string> words;
  for (const RasRank& rank : communicator.ranks) {
    if (rank.missing) words.push_back(Missed(rank));
    if (rank.async_error != 0)
      words.push_back(absl::StrCat("rank ", rank.rank, " has error ", rank.async_error));
    for (const auto& [kind, count] : rank.counts)
      if (count < furthest[kind])
        words.push_back(absl::StrCat("rank ", rank.rank, " is behind in ", kind, " (", count,
                                     " of ", furthest[kind], ")"));
  }
  return words;
}

// Takes only the lines below the headings of errors and warnings, without rulers.
std::vector<std::string> WordsOfText(absl::string_view report) {
  std::vector<std::string> words;
  bool within = false;
  for (absl::string_view line : absl::StrSplit(report, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line == "Errors" || line == "Warnings") within = true;
    const bool says = !line.empty() && line != "Errors" && line != "Warnings" &&
                      line.find_first_not_of("=-") != absl::string_view::npos;
    if (within && says) words.emplace_back(line.substr(0, kLineBytesMax));
  }
  return words;
}

}  // namespace

std::string WordsOfRasReport(absl::string_view report, const RasSelf& self) {
  std::vector<std::string> words;
  if (!absl::StartsWith(absl::StripAsciiWhitespace(report), "{")) {
    words = WordsOfText(report);
  } else {
    for (const RasCommunicator& communicator : RasJsonLines().Read(report))
      if (IsOf(communicator, self)) words = WordsOf(communicator);
  }
  if (words.empty()) return "";
  const size_t more = words.size() > kWordsMax ? words.size() - kWordsMax : 0;
  words.resize(words.size() - more);
  return absl::StrCat("NCCL RAS: ", absl::StrJoin(words, "; "),
                      more > 0 ? absl::StrCat("; and ", more, " more") : "");
}

}  // namespace dp::engine
