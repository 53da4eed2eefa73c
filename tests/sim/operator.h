#pragma once

#include <string>

#include "tests/sim/network.h"

namespace dp::sim {

// Runs the cluster with dpctl: drains workers, moves jobs in the queue, and cancels jobs that can
// never run.
class Operator {
 public:
  static constexpr Node kNode = 101;

  Operator(Environment& environment, Network& network) : env_(environment), network_(network) {}

  // Does something at random from time to time, until MakePeace.
  void Start();
  void MakePeace() { at_peace_ = true; }
  // Ends all that would keep a job waiting for ever. Call it from time to time.
  void TidyUp(const core::Coordinator& coordinator);

 private:
  void ActOn(JobId job);
  // Sends a command until it is answered; a rejection is an answer.
  void Send(core::Action action);

  Environment& env_;
  Network& network_;
  bool at_peace_ = false;
};

}  // namespace dp::sim
