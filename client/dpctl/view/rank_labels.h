#pragma once

#include <map>
#include <string>
#include <utility>

#include "client/dpctl/context.h"
#include "client/dpctl/view/log_lines.h"
#include "dp/v1/jobs.pb.h"

namespace dp::ctl {

// The label before a line of a rank: "[3 gpu-b]", its number and its host. Part of a command; one
// thread.
class RankLabels {
 public:
  RankLabels(Context& context, uint64_t job) : context_(context), job_(job) {}

  // Learns the current placement of the job's ranks.
  void Learn(const v1::Job& job);

  // Learns on which host a line says that its rank ran. This takes precedence.
  void Learn(const LogLine& line);

  // Lines of `generation` follow. Returns whether lines of an earlier generation came before.
  bool Enter(uint64_t generation);

  uint64_t generation() const { return generation_; }

  // Gets the job once if the rank's host is unknown: the job may have been placed meanwhile. Output
  // of past generations that an earlier release stored names no host.
  std::string Of(const LogLine& line);
  // The host of a line alone; empty if it is unknown.
  std::string HostOf(const LogLine& line);
  // The host of a rank in a generation.
  std::string Host(uint64_t generation, int rank);
  // How many lower ranks share the worker of a line's rank, in the latest known placement; the rank
  // itself if no placement is known.
  int LocalRankOf(const LogLine& line);

 private:
  // Gets the job, once for each generation.
  void Ask();

  Context& context_;
  const uint64_t job_;
  std::map<std::pair<uint64_t, int>, std::string> told_;  // from lines, by generation and rank
  std::map<int, std::string> hosts_;
  std::map<int, int> local_ranks_;
  bool asked_ = false;
  uint64_t generation_ = 0;  // of the current lines
  uint64_t learned_ = 0;     // of hosts_
};

}  // namespace dp::ctl
