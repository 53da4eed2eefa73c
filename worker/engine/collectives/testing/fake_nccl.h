#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/mutex.h"
#include "worker/engine/collectives/local/rank_part.h"
#include "worker/engine/collectives/nccl/nccl_api.h"
#include "worker/engine/collectives/testing/fake_kernels.h"

namespace dp::engine {

// A sum in place, as a group gives it.
inline Collective SumOf(absl::Span<float> data) {
  const Elements elements = data;
  return {.shape = {.kind = CallShape::Kind::kAllReduce,
                    .type = elements.type,
                    .count = elements.count()},
          .input = elements.bytes,
          .output = elements.bytes};
}

// NCCL as a group sees it, in host memory, for ranks that are threads of one process. An operation
// is done once all ranks have given theirs and their streams have reached it. A rank that aborts or
// dies becomes an error of all others. A stream is the list of what it still has to wait for.
// Nothing blocks except a wait on the null stream, which stands for a device that works when it is
// called. An abort ends the rank's kernels where they are, so what waits for them goes on, with
// invalid results. Rejects memory that is not the device's; the real one rejects it or ends the
// process. Thread-safe; one for all ranks.
class FakeNccl : public FakeKernelsOf<NcclApi> {
 public:
  // Whether these bytes lie in the device's memory.
  using OnDevice = std::function<bool(const void* memory, size_t bytes)>;
  // For tests whose own arrays stand in for the device's memory.
  static bool Anywhere(const void*, size_t) { return true; }

  // The device's memory is what `on_device` accepts, and what Allocate has returned.
  explicit FakeNccl(OnDevice on_device) : on_device_(std::move(on_device)) {}

  // Communicators, streams, events and memory that were made and not freed.
  int live() const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return live_;
  }
  // Calls of UseDevice, UniqueId and the operations.
  int calls() const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return calls_;
  }
  // From now on every communicator reports `error`.
  void Fail(const absl::Status& error) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    error_ = error;
  }
  // From now on the process sees no GPU, as on a host without a driver.
  void HideGpus() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    hides_gpus_ = true;
  }
  // Blocks until a rank has given an operation that other ranks have not reached.
  void AwaitOperation() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    const auto given = [&](const auto& world) {
      const auto& lines = world.second->lines;
      return std::any_of(lines.begin(), lines.end(),
                         [](const auto& line) { return !line.empty(); });
    };
    while (std::none_of(worlds_.begin(), worlds_.end(), given)) moved_.Wait(mu_);
  }
  // From now on only a rank that waits for an operation sees that a peer is gone, as over sockets.
  void HideErrorsFromIdleRanks() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    idle_see_errors_ = false;
  }
  // From now on nobody sees that a peer is gone, as between GPUs of a host.
  void HideErrors() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    all_see_nothing_ = true;
  }
  // Whether operations given to a stream are still in progress.
  void SetBusy(bool busy) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    busy_ = busy;
  }
  // From now on an abort blocks until they are released, as behind a long kernel.
  void HoldAborts() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    aborts_held_ = true;
  }
  void ReleaseAborts() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    aborts_held_ = false;
    moved_.NotifyAll();
  }
  // Communicators that were ended by Abort.
  int aborts() const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return aborts_;
  }
  // From now on a device of a rank is that of every other rank with this number. Until then each
  // rank has a GPU of its own.
  void PutOnOneHost() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    on_one_host_ = true;
  }
  // Ends the process of this communicator's rank. The communicator must still be freed.
  void Die(Communicator communicator) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    AsMember(communicator)->world->aborted = true;
  }
  // Puts a kernel on `stream` that runs until Finish is called with the result.
  std::shared_ptr<bool> Occupy(Stream stream) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    auto done = std::make_shared<bool>(false);
    AsStream(stream)->push_back(done);
    return done;
  }
  void Finish(const std::shared_ptr<bool>& kernel) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    *kernel = true;
    RunWhatCan();
    moved_.NotifyAll();
  }

  void Enqueue(Stream stream, std::function<void()> work) override DP_EXCLUDES(mu_) {
    if (stream == nullptr) return work();
    MutexLock lock(mu_);
    auto done = std::make_shared<bool>(false);
    kernels_.push_back({*AsStream(stream), std::move(work), done});
    *AsStream(stream) = {done};
    RunWhatCan();
  }

  absl::StatusOr<int> DeviceCount() override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (hides_gpus_) return absl::InternalError("CUDA: cudaGetDeviceCount: no driver");
    return 1;
  }
  absl::Status UseDevice(int device) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    chosen_device_ = device;
    ++calls_;
    return absl::OkStatus();
  }
  absl::StatusOr<int> ChosenDevice() override { return chosen_device_; }
  absl::Status AwaitDevice() override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (!kernels_.empty()) moved_.Wait(mu_);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> PlaceOf(int device) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return absl::StrCat("gpu ", on_one_host_ ? device : ++places_);
  }

  absl::StatusOr<std::string> Version() override { return std::string("0.0.0"); }

  absl::StatusOr<std::string> UniqueId() override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    ++calls_;
    return std::string(absl::StrCat("id", ++ids_)) + std::string(1, '\0') + "binary";
  }

  absl::StatusOr<Communicator> Join(absl::Span<const std::string> ids, int rank, int size,
                                    const NcclTuning&) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    auto& world = worlds_[absl::StrJoin(ids, "+")];
    if (world == nullptr) world = std::make_shared<World>();
    world->lines.resize(static_cast<size_t>(size));
    world->joined += 1;
    ++live_;
    return new Member{world, rank};
  }

  absl::StatusOr<bool> Joined(Communicator communicator) override { return Ready(communicator); }
  absl::StatusOr<bool> Ready(Communicator communicator) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (!error_.ok()) return error_;
    const Member& member = *AsMember(communicator);
    World& world = *member.world;
    const bool waits = !world.lines[member.rank].empty();
    const bool sees = (waits || idle_see_errors_) && !all_see_nothing_;
    if ((world.aborted && sees) || (world.left && waits))
      return absl::UnavailableError("remote process exited");
    return world.joined == static_cast<int>(world.lines.size()) && !(busy_ && waits);
  }

  absl::Status Finalize(Communicator) override { return absl::OkStatus(); }

  void Destroy(Communicator communicator) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    AsMember(communicator)->world->left = true;
    delete AsMember(communicator);
    --live_;
  }

  void Abort(Communicator communicator) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (aborts_held_) moved_.Wait(mu_);
    ++aborts_;
    Member* member = AsMember(communicator);
    member->world->aborted = true;
    for (const Call& call : member->world->lines[member->rank]) *call.done = true;
    RunWhatCan();
    moved_.NotifyAll();
    delete member;
    --live_;
  }

  // Calls that disagree are never done, as over the real one.
  absl::Status Give(Communicator communicator, const Collective& collective, Stream stream) override
      DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    ++calls_;
    Member* member = AsMember(communicator);
    World& world = *member->world;
    if (world.left || (world.aborted && idle_see_errors_))
      return absl::UnavailableError("remote process exited");
    if (!AllOnDevice(collective))
      return absl::InternalError("an address is not of the device's memory");
    auto done = std::make_shared<bool>(false);
    world.lines[member->rank].push_back({collective, *AsStream(stream), done});
    *AsStream(stream) = {done};
    RunWhatCan();
    moved_.NotifyAll();
    return absl::OkStatus();
  }

  absl::StatusOr<Stream> MakeStream() override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    ++live_;
    return new Pending;
  }
  void FreeStream(Stream stream) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    --live_;
    delete AsStream(stream);
  }
  absl::StatusOr<Event> Record(Stream stream) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    ++live_;
    return stream == nullptr ? new Pending : new Pending(*AsStream(stream));
  }
  absl::StatusOr<bool> Passed(Event event) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    RunWhatCan();
    return AllDone(*AsStream(event));
  }
  absl::Status WaitOnStream(Stream stream, Event event) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (stream == nullptr && !AllDone(*AsStream(event))) moved_.Wait(mu_);
    if (stream == nullptr) return absl::OkStatus();
    Pending& pending = *AsStream(stream);
    pending.insert(pending.end(), AsStream(event)->begin(), AsStream(event)->end());
    return absl::OkStatus();
  }
  void FreeEvent(Event event) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    --live_;
    delete AsStream(event);
  }
  absl::StatusOr<uint8_t*> Allocate(size_t bytes) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    ++live_;
    std::unique_ptr<uint8_t[]> memory(new uint8_t[bytes]);
    uint8_t* const begin = memory.get();
    std::memset(begin, 0xa5, bytes);  // nobody may count on what it holds
    allocated_[begin] = {std::move(memory), bytes, chosen_device_};
    return begin;
  }
  void Free(uint8_t* memory) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    live_ -= static_cast<int>(allocated_.erase(memory));
  }
  // Memory that the test brings is of the chosen device.
  absl::StatusOr<std::optional<int>> DeviceOf(const void* memory) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return DeviceOf(memory, 1);
  }
  absl::Status Copy(const uint8_t* from, size_t bytes, uint8_t* to, Stream stream) override
      DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (stream != nullptr && !AllDone(*AsStream(stream))) moved_.Wait(mu_);
    if (bytes > 0) std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }

 private:
  // The flags that must be true before a stream goes on or an event passes.
  using Pending = std::vector<std::shared_ptr<bool>>;
  struct Call {
    Collective collective;
    Pending before;
    std::shared_ptr<bool> done;
  };
  struct World {
    int joined = 0;
    bool aborted = false;
    bool left = false;                    // a rank left in good order
    std::vector<std::deque<Call>> lines;  // by rank: given and not done
  };
  struct Kernel {
    Pending before;
    std::function<void()> work;
    std::shared_ptr<bool> done;
  };
  struct Allocation {
    std::unique_ptr<uint8_t[]> memory;
    size_t bytes;
    int device;
  };
  struct Member {
    std::shared_ptr<World> world;
    int rank = 0;
  };

  static Member* AsMember(Communicator communicator) { return static_cast<Member*>(communicator); }
  static Pending* AsStream(void* stream_or_event) { return static_cast<Pending*>(stream_or_event); }

  static bool AllDone(const Pending& pending) {
    return std::all_of(pending.begin(), pending.end(), [](const auto& done) { return *done; });
  }

  std::optional<int> DeviceOf(const void* memory, size_t bytes) const DP_REQUIRES(mu_) {
    const auto* const begin = static_cast<const uint8_t*>(memory);
    for (const auto& [allocation, has] : allocated_) {
      if (begin >= allocation && begin + bytes <= allocation + has.bytes) return has.device;
    }
    if (on_device_(memory, bytes)) return chosen_device_;
    return std::nullopt;
  }

  bool AllOnDevice(const Collective& collective) const DP_REQUIRES(mu_) {
    std::vector<absl::Span<const uint8_t>> used = collective.sent;
    used.insert(used.end(), collective.received.begin(), collective.received.end());
    used.push_back(collective.input);
    used.push_back(collective.output);
    return std::all_of(used.begin(), used.end(), [this](const auto& memory) DP_REQUIRES(mu_) {
      return memory.empty() || DeviceOf(memory.data(), memory.size()).has_value();
    });
  }

  // Runs operations and kernels until none can begin.
  void RunWhatCan() DP_REQUIRES(mu_) {
    bool ran = true;
    while (ran) {
      ran = false;
      for (auto& [id, world] : worlds_) ran |= RunOperations(*world);
      ran |= RunKernels();
    }
  }

  // These return whether anything ran.
  bool RunKernels() DP_REQUIRES(mu_) {
    const auto can_run = [](const Kernel& kernel) { return AllDone(kernel.before); };
    const auto next = std::find_if(kernels_.begin(), kernels_.end(), can_run);
    if (next == kernels_.end()) return false;
    next->work();
    *next->done = true;
    kernels_.erase(next);
    moved_.NotifyAll();
    return true;
  }
  bool RunOperations(World& world) DP_REQUIRES(mu_) {
    bool ran = false;
    const auto can_run = [](const std::deque<Call>& line) {
      return !line.empty() && AllDone(line.front().before);
    };
    while (!world.aborted && std::all_of(world.lines.begin(), world.lines.end(), can_run)) {
      std::vector<CallShape> shapes;
      for (const auto& line : world.lines) shapes.push_back(line.front().collective.shape);
      if (!CheckShapesAgree(shapes).ok()) break;
      std::vector<Call> calls;
      for (std::deque<Call>& line : world.lines) {
        calls.push_back(line.front());
        line.pop_front();
      }
      std::vector<const Collective*> collectives;
      for (const Call& call : calls) collectives.push_back(&call.collective);
      for (size_t r = 0; r < calls.size(); ++r) RunPartOf(static_cast<int>(r), collectives);
      for (const Call& call : calls) *call.done = true;
      moved_.NotifyAll();
      ran = true;
    }
    return ran;
  }

  const OnDevice on_device_;
  mutable Mutex mu_;
  CondVar moved_;  // an operation was given, or has ended
  int ids_ DP_GUARDED_BY(mu_) = 0;
  int places_ DP_GUARDED_BY(mu_) = 0;
  bool on_one_host_ DP_GUARDED_BY(mu_) = false;
  int live_ DP_GUARDED_BY(mu_) = 0;
  int calls_ DP_GUARDED_BY(mu_) = 0;
  bool hides_gpus_ DP_GUARDED_BY(mu_) = false;
  int aborts_ DP_GUARDED_BY(mu_) = 0;
  bool aborts_held_ DP_GUARDED_BY(mu_) = false;
  bool busy_ DP_GUARDED_BY(mu_) = false;
  bool all_see_nothing_ DP_GUARDED_BY(mu_) = false;
  bool idle_see_errors_ DP_GUARDED_BY(mu_) = true;
  absl::Status error_ DP_GUARDED_BY(mu_);
  inline static thread_local int chosen_device_ = 0;
  std::map<const uint8_t*, Allocation> allocated_ DP_GUARDED_BY(mu_);
  std::deque<Kernel> kernels_ DP_GUARDED_BY(mu_);  // given and not done
  std::map<std::string, std::shared_ptr<World>> worlds_ DP_GUARDED_BY(mu_);
};

}  // namespace dp::engine
