#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "dp/distributed.h"
#include "gtest/gtest.h"

namespace dp::library {

// How the ranks of a test join: as threads of this process, in a store of their own.
inline distributed::InitOptions Thread(
    const distributed::Store& store, int rank, int size, const std::string& backend = "auto",
    std::chrono::milliseconds timeout = std::chrono::minutes(1)) {
  return {.backend = backend, .store = store, .world_size = size, .rank = rank, .timeout = timeout};
}

// Runs `rank` on this thread; an error fails the test, and not the program.
inline void OnThread(const std::function<void()>& rank) {
  try {
    rank();
  } catch (const distributed::DistError& error) {
    ADD_FAILURE() << error.what();
  }
}

// Runs `body` on `size` threads, each with its rank's group, and lets all leave.
inline void OnRanks(int size, const std::string& backend,
                    const std::function<void(const distributed::ProcessGroup&)>& body,
                    std::chrono::milliseconds timeout = std::chrono::minutes(1)) {
  const distributed::HashStore store;
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      OnThread([&] {
        const distributed::ProcessGroup group(Thread(store, rank, size, backend, timeout));
        body(group);
        destroy_process_group(group);
      });
    });
  }
}

}  // namespace dp::library
