#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dp/backend.h"
#include "dp/elements.h"
#include "dp/errors.h"
#include "dp/namespace.h"
#include "dp/store.h"

// torch.distributed for C++: docs/library.md. The functions carry its names.

namespace dp::library {
class JoinedGroup;
class PendingWork;
}  // namespace dp::library

namespace dp::distributed {

// How a process becomes a rank; the fields are those of torch.distributed.init_process_group.
struct InitOptions {
  // "auto", "shm", "hierarchical", "gloo", "nccl", "mpi" or a registered backend, in any case.
  // "auto" is nccl if `device` is given. Else it is shm where all ranks are on one host, gloo where
  // each rank has a host of its own, and hierarchical in between. "mpi" is for processes that
  // mpirun has started.
  std::string backend = "auto";
  // env://, dp://, tcp://HOST:PORT or file:///PATH. Empty, and no store: env://. For backend mpi
  // also without MASTER_ADDR: what mpirun says.
  std::string init_method = {};
  // Where the ranks meet instead of an init method; world_size and rank are then required.
  std::optional<Store> store = std::nullopt;
  // Override WORLD_SIZE and RANK of env://.
  std::optional<int> world_size = std::nullopt;
  std::optional<int> rank = std::nullopt;
  // The time limit of joining, and of every operation.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  // Distinguishes groups that meet in the same store.
  std::string group_name = "default";
  // For backend nccl, and groups of it that new_group makes. The rank's GPU, by its number among
  // those that the process sees; without it LOCAL_RANK, else 0. Each rank has a GPU of its own.
  std::optional<int> device = std::nullopt;
  // For the same: the CUDA stream on which the program computes, a cudaStream_t. Null is the
  // default stream. It outlives the group.
  void* stream = nullptr;
};

// Ranks that call collectives together: processes, or threads of one process. A handle; its copies
// name the same group. An empty handle is no member of its group. The last handle of a group that
// destroy_process_group has not left aborts what is in flight, and peers may conclude that the rank
// died. Calls come from one thread at a time; abort may come from any. In a fork of the process
// that joined, calls are kWrongState, and the end of a handle does nothing.
class ProcessGroup {
 public:
  ProcessGroup() = default;
  // Joins a group that is not the default group, for ranks that are threads. Blocks until all ranks
  // have joined. Errors: as init_process_group.
  explicit ProcessGroup(const InitOptions& options);

  explicit operator bool() const { return joined_ != nullptr; }
  int rank() const;
  int size() const;
  // "shm", "hierarchical", "gloo", "nccl", "mpi" or a registered backend.
  std::string backend() const;
  std::string name() const;
  // Ends every operation, in flight or later, with kAborted and `why`. Peers learn of it when this
  // group or its process ends. Idempotent; the first reason stays.
  void abort(std::string_view why) const;

  // For the library itself.
  explicit ProcessGroup(std::shared_ptr<library::JoinedGroup> joined)
      : joined_(std::move(joined)) {}
  const std::shared_ptr<library::JoinedGroup>& joined() const { return joined_; }

 private:
  std::shared_ptr<library::JoinedGroup> joined_;
};

// An operation in flight. The destructor waits as wait() does, because the operation uses the
// caller's memory until then.
class Work {
 public:
  explicit Work(std::unique_ptr<library::PendingWork> pending);
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  ~Work();

  // Blocks until the operation has ended; later calls have the same outcome. After an error the
  // contents of its memory are unspecified. Errors: kTimeout names the ranks that did not arrive;
  // kPeerGone; kMismatch, where the backend sees it; kAborted; kLimit thousands are in flight.
  //
  // For an operation on GPU memory it returns at once, and for a message once both ranks have
  // called it. Work that the program gives its stream from now on sees the result. Other streams
  // must wait for that one, also before the memory is freed. An error of the operation then shows
  // in a later call of the group. The first call after the time limit has it at the latest. With
  // NCCL_BLOCKING_WAIT=1 the wait blocks, as above.
  void wait();
  // Both throw kWrongState once the Work was moved from, and in a fork of the process that began
  // it.
  bool is_completed() const;

 private:
  std::unique_ptr<library::PendingWork> pending_;
};

// As is_backend_available, of one backend: whether this build has it. Joining fails if a library of
// the backend is missing on the host.
bool is_available();
bool is_shm_available();
bool is_gloo_available();
bool is_nccl_available();
bool is_mpi_available();

// Makes the default group, which the functions below use unless they are given another. Blocks
// until all ranks have joined.
// Errors: kInvalidArgument names the option or the variable. kWrongState a default group exists, or
// a file is of an earlier run, or ranks share a GPU. kUnsupported the backend is not in this build,
// or its library is missing. kTimeout names the ranks that did not arrive. kMismatch ranks give
// different backends. kUnreachable the store or the network failed, or a peer that could not join.
void init_process_group(const InitOptions& options = {});
bool is_initialized();
// Errors: kWrongState there is none.
ProcessGroup default_group();
// Makes a group of some ranks of the default group. All of its ranks call this, in the same order
// and with the same list; those that are not in `ranks` get an empty handle. The list numbers the
// ranks of the group: its first rank is 0. Empty `backend`, and no timeout: those of the default
// group. Device and stream are always the default group's. Blocks until all of `ranks` have joined.
// Errors: as init_process_group; also kMismatch the lists or backends of ranks differ.
ProcessGroup new_group(std::span<const int> ranks, std::string_view backend = {},
                       std::optional<std::chrono::milliseconds> timeout = std::nullopt);
// A rank's last call: blocks until every peer calls it or is gone, then leaves. Without an argument
// it leaves the default group; without a default group it does nothing.
void destroy_process_group();
void destroy_process_group(ProcessGroup group);

int get_rank(const ProcessGroup& group = default_group());
int get_world_size(const ProcessGroup& group = default_group());
std::string get_backend(const ProcessGroup& group = default_group());

// The collectives. Every rank of the group calls the same ones in the same order. A `src` or `dst`
// is a rank of the default group, also for a group made by new_group. After the first error of a
// group all its later operations fail with that error; a kInvalidArgument is none of the group's.
// Arrays of one call have one element type and do not overlap. Errors: as Work::wait; also
// kInvalidArgument.
//
// With backend nccl the arrays are in GPU memory, and the GPU becomes the calling thread's device.
// all_reduce, broadcast and all_gather also take the host's memory, if all ranks give such; they
// then copy it and return when they have ended.

// In place: afterwards every rank has the reduction of all ranks' `data`.
void all_reduce(MutableElements data, ReduceOp op = ReduceOp::kSum,
                const ProcessGroup& group = default_group());
Work all_reduce_async(MutableElements data, ReduceOp op = ReduceOp::kSum,
                      const ProcessGroup& group = default_group());
// Afterwards rank `dst` has the reduction in its `data`. The others' is as it was.
void reduce(MutableElements data, int dst, ReduceOp op = ReduceOp::kSum,
            const ProcessGroup& group = default_group());
Work reduce_async(MutableElements data, int dst, ReduceOp op = ReduceOp::kSum,
                  const ProcessGroup& group = default_group());
// `input` has a part for each rank, in rank order and as large as `output`. Afterwards `output` is
// the reduction of all ranks' parts for this rank.
void reduce_scatter(MutableElements output, Elements input, ReduceOp op = ReduceOp::kSum,
                    const ProcessGroup& group = default_group());
Work reduce_scatter_async(MutableElements output, Elements input, ReduceOp op = ReduceOp::kSum,
                          const ProcessGroup& group = default_group());
// In place: afterwards every rank has `src`'s data.
void broadcast(MutableElements data, int src, const ProcessGroup& group = default_group());
Work broadcast_async(MutableElements data, int src, const ProcessGroup& group = default_group());
// `output` has world size times the elements of `input`, rank r's at r times its count.
void all_gather(MutableElements output, Elements input,
                const ProcessGroup& group = default_group());
Work all_gather_async(MutableElements output, Elements input,
                      const ProcessGroup& group = default_group());
// As all_gather, for rank `dst` only. The others' `output` is empty.
void gather(MutableElements output, Elements input, int dst,
            const ProcessGroup& group = default_group());
Work gather_async(MutableElements output, Elements input, int dst,
                  const ProcessGroup& group = default_group());
// `input` of rank `src` has a part for each rank, in rank order and as large as `output`.
// Afterwards `output` is this rank's part. The others' `input` is empty.
void scatter(MutableElements output, Elements input, int src,
             const ProcessGroup& group = default_group());
Work scatter_async(MutableElements output, Elements input, int src,
                   const ProcessGroup& group = default_group());
// `input` has a part for each rank, in rank order, and `output` gets a part from each. All parts
// are of one size.
void all_to_all(MutableElements output, Elements input,
                const ProcessGroup& group = default_group());
Work all_to_all_async(MutableElements output, Elements input,
                      const ProcessGroup& group = default_group());
// Parts of any size: rank r's have `output_counts[r]` and `input_counts[r]` elements.
void all_to_all(MutableElements output, Elements input, std::span<const size_t> output_counts,
                std::span<const size_t> input_counts, const ProcessGroup& group = default_group());
Work all_to_all_async(MutableElements output, Elements input, std::span<const size_t> output_counts,
                      std::span<const size_t> input_counts,
                      const ProcessGroup& group = default_group());
// Messages between two ranks of the group. Both give the same tag, type and count. Messages of one
// tag between two ranks meet in the order of their calls. Messages run beside each other and beside
// the collectives, in no order to them: wait for an operation before its result is sent. Errors: as
// Work::wait, which name the peer; kUnsupported the backend has no messages.
void send(Elements data, int dst, int tag = 0, const ProcessGroup& group = default_group());
Work send_async(Elements data, int dst, int tag = 0, const ProcessGroup& group = default_group());
// torch's other name of send_async.
Work isend(Elements data, int dst, int tag = 0, const ProcessGroup& group = default_group());
void recv(MutableElements data, int src, int tag = 0, const ProcessGroup& group = default_group());
Work recv_async(MutableElements data, int src, int tag = 0,
                const ProcessGroup& group = default_group());
// torch's other name of recv_async.
Work irecv(MutableElements data, int src, int tag = 0, const ProcessGroup& group = default_group());

// Memory for `count` elements that is fastest for all_reduce, zeros at first. Where ranks share
// memory, peers read and write it in its place, if all ranks give such memory. It belongs to the
// group: it lives until the rank leaves, or the last handle of the group is gone. After an error of
// an operation, peers may still write to it. Call it between operations. With backend nccl it is
// memory of the GPU. Errors: kLimit there is no memory.
std::span<std::byte> allocate_bytes(size_t bytes, const ProcessGroup& group = default_group());
template <Element T>
std::span<T> allocate(size_t count, const ProcessGroup& group = default_group()) {
  // A count beyond any memory stays one.
  const size_t most = static_cast<size_t>(-1) / sizeof(T);
  const std::span<std::byte> memory =
      allocate_bytes(count > most ? most * sizeof(T) : count * sizeof(T), group);
  return {reinterpret_cast<T*>(memory.data()), count};
}

// Blocks until every rank has called it.
void barrier(const ProcessGroup& group = default_group());
Work barrier_async(const ProcessGroup& group = default_group());
// The same through the store, with a time limit of its own; a failure leaves the group usable.
// Errors: kTimeout names the ranks that did not arrive; kInvalidArgument the limit is not positive.
void monitored_barrier(const ProcessGroup& group = default_group(),
                       std::optional<std::chrono::milliseconds> timeout = std::nullopt);

}  // namespace dp::distributed
