#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/dpctl/context.h"
#include "client/dpctl/run/line_files.h"
#include "client/dpctl/run/line_rules.h"
#include "client/dpctl/run/progress.h"
#include "client/dpctl/run/screen.h"
#include "client/dpctl/run/spawn_advice.h"
#include "client/dpctl/view/log_lines.h"
#include "client/dpctl/view/log_reader.h"
#include "client/dpctl/view/rank_labels.h"
#include "dp/v1/jobs.pb.h"
#include "dp/v1/logs.pb.h"

namespace dp::ctl {

// Shows a job from its place in the queue to its end: why it waits, the lines of its ranks, a
// progress bar. Part of a command; one thread.
class Follower {
 public:
  // Lines of the job go to `out`; messages of dpctl and the ranks' errors go to standard error.
  // Tolerates an absent coordinator for `patience`. `advice` is for ranks that run without any
  // output.
  Follower(Context& context, uint64_t job, std::ostream& out, absl::Duration patience,
           SilenceAdvice advice)
      : context_(context),
        job_(job),
        out_(out),
        patience_(patience),
        advice_(std::move(advice)),
        screen_(context.surroundings().terminal),
        labels_(context, job) {}

  // Shows and files lines by `rules` from now on; the default shows all. Before Run.
  void Obey(LineRules rules, std::optional<LineFiles> files) {
    rules_ = std::move(rules);
    files_ = std::move(files);
  }

  // Returns the job at its end, or as it is once nobody reads standard output any more. After an
  // interruption another Run continues where the first one stopped, without repeating lines.
  // Errors: as Context::Call and CheckSame; Cancelled after Context::Interrupt.
  absl::StatusOr<v1::Job> Run();

  std::optional<double> test_accuracy() const { return progress_.test_accuracy(); }

 private:
  // Reports why a job does not run yet. Returns whether it does not run yet.
  bool ShowWaiting(const v1::Job& job);
  v1::ReadLogsRequest EveryLine() const;
  absl::Status ShowLogs();
  // The next lines. If there are none for long, shows the advice.
  absl::StatusOr<std::vector<LogLine>> NextLines();
  // Gets the job and reports its state. Errors: as CheckSame.
  absl::Status LookAgain();
  // Reports the generations that have failed since the last look at the job.
  void ShowRestarts(const v1::Job& job);
  absl::Status Show(const LogLine& line);
  // Adds a line to its file. After a failure, which is reported once, there are no files any more,
  // and lines that went only to files are shown.
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
  std::optional<v1::Job> seen_;      // as of the last look
  std::optional<LogReader> reader_;  // once the job has run
  Progress progress_;
  std::string last_said_;
  uint64_t announced_ = 0;  // the latest generation whose failure was reported
};

}  // namespace dp::ctl
