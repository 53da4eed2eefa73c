#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "dp/elements.h"
#include "dp/store.h"

namespace dp::distributed {

// A backend that the program brings: docs/library.md, "A backend of your own". It moves bytes, and
// dp makes every operation of that, with the sums of dp's own backends bit for bit. dp calls it
// from one thread at a time; abort may come from any. A function that throws ends its operation
// with an error, and the group is then broken for good. Throw a DistError of kPeerGone or kTimeout
// where a peer is gone or late; its missing_ranks are reported. The destructor blocks on no peer.
class Backend {
 public:
  virtual ~Backend() = default;

  // Sends sent[r] to rank r, and receives received[r] from rank r, which sends as many bytes.
  // Blocks until both have ended. Pieces may be empty, and those for the rank itself are.
  virtual void exchange(std::span<const std::span<const std::byte>> sent,
                        std::span<const std::span<std::byte>> received) = 0;
  // Makes the exchange in progress, and every later one, throw within a second.
  virtual void abort() noexcept = 0;

  // For backends that reduce in hardware. In place: every rank has the reduction of all ranks'
  // `count` elements. Returns false, on every rank, where dp shall reduce.
  virtual bool all_reduce(void* data, size_t count, DataType type, ReduceOp op) {
    (void)data, (void)count, (void)type, (void)op;
    return false;
  }
};

// A rank that joins a group.
struct BackendPlace {
  Store store;  // where the ranks of this group meet; no other keys are in it
  int rank = 0;
  int world_size = 1;
  std::chrono::milliseconds timeout{};  // of joining, and of each operation
};

using BackendFactory = std::function<std::unique_ptr<Backend>(const BackendPlace& place)>;

// Makes `name` a backend that groups of this process can be given. `factory` connects a rank. Its
// std::exceptions are those of init_process_group. Another exception is a kProgramFailed there, and
// so is a factory that returns nothing. Errors: kInvalidArgument the factory is empty, or the
// name is empty or one of dp's own; kWrongState it is registered already.
void register_backend(std::string_view name, BackendFactory factory);
// Whether this process can join a group by that backend, in any case: one of dp's own that this
// build has, or a registered one.
bool is_backend_available(std::string_view name);

}  // namespace dp::distributed
