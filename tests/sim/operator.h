#pragma once

#include <string>

#include "tests/sim/network.h"

namespace dp::sim {

// Somebody who runs the cluster with dpctl: drains workers, moves jobs about in the queue, and
// cancels what can never run.
class Operator {
 public:
  static constexpr Node kNode = 101;

  Operator(Environment& environment, Network& network) : env_(environment), network_(network) {}

  // Does something at random now and again, until MakePeace.
  void Start();
  void MakePeace() { at_peace_ = true; }
  // Lets go of everything that would keep a job waiting for ever: to be called now and again.
  void TidyUp(const core::Coordinator& coordinator);

 private:
  void ActOn(JobId job);
  // Sends a command until it is answered; a refusal is an answer.
  void Send(core::Action action);

  Environment& env_;
  Network& network_;
  bool at_peace_ = false;
};

}  // namespace dp::sim
