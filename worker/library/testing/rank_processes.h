#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/testing/scratch_dir.h"
#include "dp/distributed.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/testing/group_processes.h"

namespace dp::library {

inline constexpr auto kPatience = std::chrono::minutes(1);

// The kind and message of an error, as a rank says them.
inline std::string Say(const distributed::DistError& error) {
  return std::to_string(static_cast<int>(error.kind())) + " " + error.what();
}

using Line = engine::Process::Line;

// Runs `body`, which returns what the rank says at its end.
inline std::unique_ptr<engine::Process> Rank(const std::function<std::string(const Line&)>& body) {
  return std::make_unique<engine::Process>([body](const Line& line) {
    try {
      line.Say(body(line));
    } catch (const distributed::DistError& error) {
      line.Say(Say(error));
    }
    line.AwaitCommand();
  });
}

// How the ranks of a test join.
inline distributed::InitOptions At(const std::string& method, int rank, int size) {
  return {.init_method = method, .world_size = size, .rank = rank, .timeout = kPatience};
}

// Ranks that are processes, and may meet in a file.
class RankProcessesTest : public ::testing::Test {
 protected:
  // Starts ranks of which each runs `body`.
  engine::World Start(int size, const std::function<std::string(int rank, const Line&)>& body) {
    engine::World world;
    for (int rank = 0; rank < size; ++rank)
      world.push_back(Rank([=](const Line& line) { return body(rank, line); }));
    return world;
  }
  std::string Url() const { return "file://" + path(); }
  std::string path() const { return (scratch_.path() / "meeting").string(); }

  ScratchDir scratch_;
};

}  // namespace dp::library
