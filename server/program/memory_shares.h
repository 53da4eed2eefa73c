#pragma once

#include <cstddef>
#include <cstdint>

namespace dp::server {

// The default memory for requests, beside the state. It holds the requests of 10,000 ranks that
// meet, many times over.
inline constexpr uint64_t kMemoryMax = uint64_t{1} << 30;
// The smallest budget. TCPStore clients share 64 MiB of it: several requests with the largest value
// at a time. gRPC has 128 MiB. The driver's queue has 32 MiB: one message of the largest size, 20
// MiB, at a time.
inline constexpr uint64_t kMemoryMaxMin = uint64_t{256} << 20;

// The default memory of all tables of parameters, beside --memory-max. It holds a job of four ranks
// with AdamW and a hundred million weights.
inline constexpr uint64_t kParameterMemory = uint64_t{4} << 30;

// The shares of --memory-max. Records of the journal and pages of logs add a little to them. Keys
// that TCPStore clients wait for are counted separately (store/wire/message_memory), and may take
// as much again as the flag.
struct MemoryShares {
  size_t tcpstore;  // requests of TCPStore clients until they are answered
  size_t grpc;      // buffers and open calls of gRPC, a few KiB each
  size_t driver;    // requests that are queued for the driver or being journalled
  size_t answers;   // answers that callers have not taken yet

  static MemoryShares Of(uint64_t memory_max) {
    return {static_cast<size_t>(memory_max / 4), static_cast<size_t>(memory_max / 2),
            static_cast<size_t>(memory_max / 8), static_cast<size_t>(memory_max / 8)};
  }
};

}  // namespace dp::server
