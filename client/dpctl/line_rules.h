#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/dpctl/log_lines.h"
#include "client/dpctl/torchrun_flags.h"
#include "dp/v1/job_spec.pb.h"

// Which lines of ranks a terminal shows, and which go to files, as torchrun's flags say it. Pure.

namespace dp::ctl {

// Streams of local ranks: "3" of all ranks, or "0:1,1:3". 0 is none, 1 standard output, 2 standard
// error, 3 both.
class RankStreams {
 public:
  // Errors: InvalidArgument names `flag` and the text.
  static absl::StatusOr<RankStreams> Parse(const std::string& flag, absl::string_view text);

  bool Has(int local_rank, v1::LogStream stream) const;
  bool empty() const { return of_all_ == 0 && of_rank_.empty(); }
  // The local ranks that are named one by one.
  std::set<int> ranks() const;

 private:
  int of_all_ = 0;
  std::map<int, int> of_rank_;
};

struct LineRules {
  RankStreams redirects;      // to files alone
  RankStreams tee;            // to files, and shown
  std::set<int> ranks_shown;  // local ones; empty: all
  std::string prefix;         // before each line that is shown; empty: dpctl's own, as "[0 host]"
  std::string log_dir;        // for the files; empty: not given
  std::string role = "default";
  // Ranks on each worker; 0: the placement decides, and may put different numbers on workers.
  int ranks_per_node = 0;

  // Whether a line's local rank matters.
  bool need_local_ranks() const {
    return !redirects.empty() || !tee.empty() || !ranks_shown.empty() || !prefix.empty();
  }
  bool Shows(const LogLine& line, int local_rank) const;
  bool Files(const LogLine& line, int local_rank) const;
  // The template `prefix` with ${role_name}, ${local_rank}, ${rank} and ${hostname} replaced.
  std::string Prefix(const LogLine& line, int local_rank, const std::string& host) const;
};

// The rules for the lines of this job. Errors: InvalidArgument names the flag.
absl::StatusOr<LineRules> LineRulesOf(const TorchrunFlags& flags, const v1::JobSpec& spec);

// A line for each flag that names local ranks which no worker can have. Such names change nothing,
// as with torchrun.
std::vector<std::string> NoSuchLocalRanks(const LineRules& rules, const TorchrunFlags& flags,
                                          const v1::JobSpec& spec);

}  // namespace dp::ctl
