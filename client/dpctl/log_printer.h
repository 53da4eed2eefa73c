#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "client/dpctl/context.h"
#include "client/dpctl/json_writer.h"
#include "client/dpctl/log_dedup.h"
#include "client/dpctl/log_lines.h"
#include "client/dpctl/open_line.h"
#include "client/dpctl/rank_labels.h"
#include "dp/v1/jobs.pb.h"

namespace dp::ctl {

// Prints lines of a job as `dpctl logs` shows them: with their rank and host before them, or as
// JSON, one object a line. Part of a command; one thread.
class LogPrinter {
 public:
  LogPrinter(Context& context, const v1::Job& job, bool timestamps)
      : context_(context), timestamps_(timestamps), labels_(context, job.id()), job_(job.id()) {
    labels_.Learn(job);
  }

  // Lines that are held before they are printed tell at once where their ranks ran.
  void Learn(const LogLine& line) { labels_.Learn(line); }
  void Print(const LogLine& line);
  // With all the ranks that wrote it.
  void Print(const SharedLine& shared);
  // Ends a line of which only pieces have come.
  void EndLine() { screen_line_.End(); }
  // The latest of a line so far.
  uint64_t generation() const { return labels_.generation(); }

 private:
  // Says on standard error that another generation begins.
  void Enter(uint64_t generation);
  void PrintText(const LogLine& line, const std::string& label);
  void BeginJson(const LogLine& line, JsonWriter& json);
  void EndJson(const LogLine& line, JsonWriter& json);

  Context& context_;
  const bool timestamps_;
  RankLabels labels_;
  const uint64_t job_;
  OpenLine screen_line_;
};

}  // namespace dp::ctl
