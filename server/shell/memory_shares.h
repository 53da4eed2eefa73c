#pragma once

#include <cstddef>
#include <cstdint>

namespace dp::server {

// What requests may take beside the state, by default. Holds the requests of 10,000 ranks that
// meet, many times over.
inline constexpr uint64_t kMemoryMax = uint64_t{1} << 30;
// The least that makes sense: a quarter of it holds the largest TCPStore request, of 64 MiB.
inline constexpr uint64_t kMemoryMaxMin = uint64_t{256} << 20;

// Who may hold how much of --memory-max. What is left, an eighth, is for the copies that are
// made on the way: records of the journal, answers, pages of logs.
struct MemoryShares {
  size_t tcpstore;  // requests of TCPStore clients until they are answered
  size_t grpc;      // buffers and open calls of gRPC, a few KiB each
  size_t driver;    // requests that are queued for the driver, and those that it journals

  static MemoryShares Of(uint64_t memory_max) {
    return {static_cast<size_t>(memory_max / 4), static_cast<size_t>(memory_max / 2),
            static_cast<size_t>(memory_max / 8)};
  }
};

}  // namespace dp::server
