#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "worker/engine/collectives/nccl_api.h"
#include "worker/engine/collectives/ordered_reduce.h"

namespace dp::engine {

// NCCL as a group sees it, in host memory, for ranks that are threads of one process: nothing
// blocks, an operation is done once all ranks have given theirs, and a rank that aborts becomes an
// error of all others. Events and streams are counts. Thread-safe; one for all ranks.
class FakeNccl : public NcclApi {
 public:
  // Communicators, streams and events that were made and not freed.
  int live() const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return live_;
  }
  // From now on every communicator reports `error`.
  void Fail(const absl::Status& error) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    error_ = error;
  }

  absl::Status UseDevice(int) override { return absl::OkStatus(); }

  absl::StatusOr<std::string> UniqueId() override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return std::string(absl::StrCat("id", ++ids_)) + std::string(1, '\0') + "binary";
  }

  absl::StatusOr<Communicator> Join(const std::string& id, int rank, int size) override
      DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    auto& world = worlds_[id];
    if (world == nullptr) world = std::make_shared<World>();
    world->size = size;
    world->joined += 1;
    ++live_;
    return new Member{world, rank};
  }

  absl::StatusOr<bool> Ready(Communicator communicator) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (!error_.ok()) return error_;
    const World& world = *AsMember(communicator)->world;
    if (world.aborted || (world.left && !world.calls.empty()))
      return absl::UnavailableError("remote process exited");
    return world.joined == world.size;
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
    Member* member = AsMember(communicator);
    member->world->aborted = true;
    delete member;
    --live_;
  }

  absl::Status AllReduce(Communicator communicator, float* data, size_t count, ReduceOp op,
                         Stream stream) override {
    return Give(communicator, stream, data, data, [count, op](const World& world) {
      std::vector<const float*> inputs;
      for (const Call& call : world.calls) inputs.push_back(static_cast<const float*>(call.input));
      std::vector<float> result(count);
      ReduceInOrder(inputs, count, op, result.data());
      for (const Call& call : world.calls)
        std::memcpy(call.output, result.data(), count * sizeof(float));
    });
  }

  absl::Status Broadcast(Communicator communicator, uint8_t* data, size_t bytes, int root,
                         Stream stream) override {
    return Give(communicator, stream, data, data, [bytes, root](const World& world) {
      for (const Call& call : world.calls)
        std::memmove(call.output, world.calls[root].input, bytes);
    });
  }

  absl::Status AllGather(Communicator communicator, const uint8_t* data, size_t bytes,
                         uint8_t* gathered, Stream stream) override {
    return Give(communicator, stream, data, gathered, [bytes](const World& world) {
      for (const Call& call : world.calls)
        for (size_t r = 0; r < world.calls.size(); ++r)
          std::memcpy(static_cast<uint8_t*>(call.output) + r * bytes, world.calls[r].input, bytes);
    });
  }

  absl::StatusOr<Stream> MakeStream() override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    ++live_;
    return new Given;
  }
  void FreeStream(Stream stream) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    --live_;
    delete static_cast<Given*>(stream);
  }
  absl::StatusOr<Event> Record(Stream stream) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    ++live_;
    return new std::shared_ptr<bool>(stream == nullptr ? std::make_shared<bool>(true)
                                                       : static_cast<Given*>(stream)->last);
  }
  absl::StatusOr<bool> Passed(Event event) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return **static_cast<std::shared_ptr<bool>*>(event);
  }
  absl::Status WaitOnStream(Stream, Event) override { return absl::OkStatus(); }
  void FreeEvent(Event event) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    --live_;
    delete static_cast<std::shared_ptr<bool>*>(event);
  }

 private:
  // A stream: whether the last operation given to it is done.
  struct Given {
    std::shared_ptr<bool> last = std::make_shared<bool>(true);
  };
  struct Call {
    int rank = 0;
    const void* input = nullptr;
    void* output = nullptr;
    std::shared_ptr<bool> done;
  };
  struct World {
    int size = 0;
    int joined = 0;
    bool aborted = false;
    bool left = false;        // somebody did, in good order
    std::vector<Call> calls;  // of the operation under way, by rank once complete
  };
  struct Member {
    std::shared_ptr<World> world;
    int rank = 0;
  };

  static Member* AsMember(Communicator communicator) { return static_cast<Member*>(communicator); }

  absl::Status Give(Communicator communicator, Stream stream, const void* input, void* output,
                    const std::function<void(const World&)>& run) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    Member* member = AsMember(communicator);
    World& world = *member->world;
    if (world.aborted || world.left) return absl::UnavailableError("remote process exited");
    auto done = std::make_shared<bool>(false);
    static_cast<Given*>(stream)->last = done;
    world.calls.push_back({member->rank, input, output, done});
    if (static_cast<int>(world.calls.size()) < world.size) return absl::OkStatus();
    std::sort(world.calls.begin(), world.calls.end(),
              [](const Call& a, const Call& b) { return a.rank < b.rank; });
    run(world);
    for (const Call& call : world.calls) *call.done = true;
    world.calls.clear();
    return absl::OkStatus();
  }

  mutable Mutex mu_;
  int ids_ DP_GUARDED_BY(mu_) = 0;
  int live_ DP_GUARDED_BY(mu_) = 0;
  absl::Status error_ DP_GUARDED_BY(mu_);
  std::map<std::string, std::shared_ptr<World>> worlds_ DP_GUARDED_BY(mu_);
};

}  // namespace dp::engine
