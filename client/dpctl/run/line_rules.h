#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/dpctl/run/torchrun_flags.h"
#include "client/dpctl/view/log_lines.h"
#include "dp/v1/job_spec.pb.h"

// Rules by which a terminal shows lines of ranks, and files take them, from torchrun's flags. Pure.

namespace dp::ctl {

// Streams per local rank: "3" for all ranks, or "0:1,1:3". 0 is none, 1 standard output, 2 standard
// error, 3 both.
class RankStreams {
 public:
  // Errors: InvalidArgument names `flag` and the text.
  static absl::StatusOr<RankStreams> Parse(const std::string& flag, absl::string_view text);

  bool Has(int local_rank, v1::LogStream stream) const;
  bool empty() const { return of_all_ == 0 && of_rank_.empty(); }
  // The local ranks that are listed one by one.
  std::set<int> ranks() const;

 private:
  int of_all_ = 0;
  std::map<int, int> of_rank_;
};

struct LineRules {
  RankStreams redirects;      // only to files
  RankStreams tee;            // to files, and shown
  std::set<int> ranks_shown;  // local ranks; empty: all
  std::string prefix;         // before each shown line; empty: dpctl's own, as "[0 host]"
  std::string log_dir;        // of the files; empty: not given
  std::string role = "default";
  // Ranks on each worker; 0: the placement decides, and may put different numbers on workers.
  int ranks_per_node = 0;

  // Whether the rules depend on a line's local rank.
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

// One line for each flag that names local ranks which no worker can have. These names change
// nothing, as with torchrun.
std::vector<std::string> NoSuchLocalRanks(const LineRules& rules, const TorchrunFlags& flags,
                                          const v1::JobSpec& spec);

}  // namespace dp::ctl
