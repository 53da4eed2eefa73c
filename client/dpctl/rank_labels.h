#pragma once

#include <map>
#include <string>
#include <utility>

#include "client/dpctl/context.h"
#include "client/dpctl/log_lines.h"
#include "dp/v1/jobs.pb.h"

namespace dp::ctl {

// What stands before a line of a rank: "[3 gpu-b]", its number and its host. Part of a command; one
// thread.
class RankLabels {
 public:
  RankLabels(Context& context, uint64_t job) : context_(context), job_(job) {}

  // The ranks of the job as it is.
  void Learn(const v1::Job& job);

  // Where a line says that its rank ran, which counts more.
  void Learn(const LogLine& line);

  // Lines of `generation` follow; returns whether lines of an earlier one came before.
  bool Enter(uint64_t generation);

  uint64_t generation() const { return generation_; }

  // Asks for the job once where the rank's host is not known: it may have been placed meanwhile.
  // What a coordinator of an earlier release stored of a generation that is over tells no host.
  std::string Of(const LogLine& line);
  // The host of a line, by itself; empty where it is not known.
  std::string HostOf(const LogLine& line);
  // The same of a rank of a generation.
  std::string Host(uint64_t generation, int rank);
  // How many lower ranks share the worker of a line's rank, in the latest placement that is known;
  // the rank itself where none is.
  int LocalRankOf(const LogLine& line);

 private:
  // Asks for the job, once for each generation.
  void Ask();

  Context& context_;
  const uint64_t job_;
  std::map<std::pair<uint64_t, int>, std::string> told_;  // by generation and rank
  std::map<int, std::string> hosts_;
  std::map<int, int> local_ranks_;
  bool asked_ = false;
  uint64_t generation_ = 0;  // whose lines come
  uint64_t learned_ = 0;     // the one that hosts_ are of
};

}  // namespace dp::ctl
