#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/dpctl/context.h"
#include "client/dpctl/line_files.h"
#include "client/dpctl/line_rules.h"
#include "client/dpctl/log_lines.h"
#include "client/dpctl/log_reader.h"
#include "client/dpctl/progress.h"
#include "client/dpctl/rank_labels.h"
#include "client/dpctl/screen.h"
#include "client/dpctl/spawn_advice.h"
#include "dp/v1/jobs.pb.h"
#include "dp/v1/logs.pb.h"

namespace dp::ctl {

// Shows a job from its place in the queue to its end: why it waits, the lines of its ranks, a
// progress bar. Part of a command; one thread.
class Follower {
 public:
  // Lines of the job go to `out`, what dpctl says of it and the ranks' errors to standard error.
  // Bears with a coordinator that is away for `patience`.
  // `advice` is for ranks that run and stay silent.
  Follower(Context& context, uint64_t job, std::ostream& out, absl::Duration patience,
           SilenceAdvice advice)
      : context_(context),
        job_(job),
        out_(out),
        patience_(patience),
        advice_(std::move(advice)),
        screen_(context.surroundings().terminal),
        labels_(context, job) {}

  // Shows and files lines by `rules` from now on; by default it shows all. Before Run.
  void Obey(LineRules rules, std::optional<LineFiles> files) {
    rules_ = std::move(rules);
    files_ = std::move(files);
  }

  // Returns the job at its end; or as it is, once nobody reads standard output any more.
  // After an interruption another Run goes on where the first one stopped, without repeating lines.
  // Errors: as Context::Call and CheckSame; Cancelled after Context::Interrupt.
  absl::StatusOr<v1::Job> Run();

  std::optional<double> test_accuracy() const { return progress_.test_accuracy(); }

 private:
  // Says what a job that does not run yet waits for. Returns whether it does not run yet.
  bool ShowWaiting(const v1::Job& job);
  v1::ReadLogsRequest EveryLine() const;
  absl::Status ShowLogs();
  // The next lines; where there are none for long, the advice is shown.
  absl::StatusOr<std::vector<LogLine>> NextLines();
  // Asks how the job stands, and says so. Errors: as CheckSame.
  absl::Status LookAgain();
  // Says which generations have failed since the job was last looked at.
  void ShowRestarts(const v1::Job& job);
  absl::Status Show(const LogLine& line);
  // Adds a line to its file. After a failure, which is shown once, there are no files any more, and
  // lines that went to files alone are shown.
  void File(const LogLine& line);
  int LocalRank(const LogLine& line);

  Context& context_;
  const uint64_t job_;
  std::ostream& out_;
  const absl::Duration patience_;
  SilenceAdvice advice_;
  LineRules rules_;
  std::optional<LineFiles> files_;
  Screen screen_;
  RankLabels labels_;
  std::optional<v1::Job> seen_;      // as it was when it was looked at last
  std::optional<LogReader> reader_;  // once the job has run
  Progress progress_;
  std::string last_said_;
  uint64_t announced_ = 0;  // the latest generation whose failure has been told
};

}  // namespace dp::ctl
