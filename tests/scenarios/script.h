#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/core/coordinator.h"
#include "server/core/invariants.h"
#include "server/policy/placement.h"
#include "tests/scenarios/line.h"

namespace dp::scenarios {

// Runs commands in the language of the scenario files (README.md) on a coordinator and writes down
// its answers. A second passes before each command. Not thread-safe.
class Script {
 public:
  // Returns the whole file, each command followed by the machine's answers, indented by two spaces.
  // Drops the answers that were there before.
  std::string Annotate(absl::string_view file);

 private:
  using Lines = std::vector<std::string>;

  Lines Run(const Line& line);
  Lines RunCommand(const Line& line);
  Lines Show(const Line& line) const;
  Lines Apply(core::Action action);
  Lines PlaceAll();
  Lines DecideRetries();
  Lines UsePorts(const Line& line);
  Lines Pass(const Line& line);
  Lines SetLimit(const Line& line);
  Lines JudgeTime();
  Lines Restart();
  void AppendBroken(Lines& lines);

  core::RegisterWorker Register(const Line& line);
  core::SubmitJob Submission(const Line& line);
  core::ReportRank Report(const Line& line, core::ReportRank::What what) const;
  core::ReportSlots SlotsReport(const Line& line) const;
  core::AccusePeers Accusation(const Line& line) const;
  core::Action Made(const Line& line) const;
  core::RankKey Rank(const Line& line) const;
  const core::Worker& Named(const std::string& name) const;
  std::string Describe(const core::Topic& topic) const;

  absl::Time now_ = absl::UnixEpoch();
  core::PlacementPolicy policy_;
  core::Coordinator coordinator_;
  core::Invariants invariants_;
  std::vector<core::Command> journal_;
  core::Action last_;
  uint64_t last_life_ = 0;
  uint64_t last_request_ = 0;
};

}  // namespace dp::scenarios
