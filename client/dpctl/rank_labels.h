#pragma once

#include <map>
#include <string>

#include "client/dpctl/context.h"
#include "dp/v1/jobs.pb.h"

namespace dp::ctl {

// What stands before a line of a rank: "[3 gpu-b]", its number and its host. Part of a command; one
// thread.
class RankLabels {
 public:
  RankLabels(Context& context, uint64_t job) : context_(context), job_(job) {}

  // The ranks of the job as it is.
  void Learn(const v1::Job& job);

  // Lines of `generation` follow; returns whether lines of an earlier one came before. Where the
  // ranks of a generation that is over were is not known.
  bool Enter(uint64_t generation);

  // Asks for the job once where the rank's host is not known: it may have been placed meanwhile.
  std::string Of(int rank) { return "[" + std::to_string(rank) + Host(rank, " ") + "]"; }
  // The host alone; empty where it is not known.
  std::string Host(int rank) { return Host(rank, ""); }

 private:
  std::string Host(int rank, const std::string& before);

  Context& context_;
  const uint64_t job_;
  std::map<int, std::string> hosts_;
  bool asked_ = false;
  uint64_t generation_ = 0;  // whose lines come
  uint64_t learned_ = 0;     // the one that hosts_ are of
};

}  // namespace dp::ctl
