#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "client/dpctl/context.h"
#include "client/dpctl/view/json_writer.h"
#include "client/dpctl/view/log_dedup.h"
#include "client/dpctl/view/log_lines.h"
#include "client/dpctl/view/open_line.h"
#include "client/dpctl/view/rank_labels.h"
#include "dp/v1/jobs.pb.h"

namespace dp::ctl {

// Prints lines of a job in the form of `dpctl logs`: with rank and host before them, or as JSON,
// one object a line. Part of a command; one thread.
class LogPrinter {
 public:
  struct Options {
    bool timestamps = false;
    bool raw = false;  // every byte, also to a terminal
  };
  LogPrinter(Context& context, const v1::Job& job, const Options& options)
      : context_(context),
        timestamps_(options.timestamps),
        harmless_(!options.raw && context.surroundings().terminal.out_is_tty),
        labels_(context, job.id()),
        job_(job.id()) {
    labels_.Learn(job);
  }

  // Learns at once where the rank of a line ran, even if the line is held before it is printed.
  void Learn(const LogLine& line) { labels_.Learn(line); }
  void Print(const LogLine& line);
  // Prints a line with all the ranks that wrote it.
  void Print(const SharedLine& shared);
  // Ends a line of which only pieces were printed.
  void EndLine() { screen_line_.End(); }
  // The latest generation of the lines so far.
  uint64_t generation() const { return labels_.generation(); }

 private:
  // Reports on standard error that another generation begins.
  void Enter(uint64_t generation);
  void PrintText(const LogLine& line, const std::string& label);
  void BeginJson(const LogLine& line, JsonWriter& json);
  void EndJson(const LogLine& line, JsonWriter& json);

  Context& context_;
  const bool timestamps_;
  const bool harmless_;  // as TerminalText
  RankLabels labels_;
  const uint64_t job_;
  OpenLine screen_line_;
};

}  // namespace dp::ctl
