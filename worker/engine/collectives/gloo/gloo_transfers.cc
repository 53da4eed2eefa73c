#include "worker/engine/collectives/gloo/gloo_transfers.h"

#include <pthread.h>

#include <exception>
#include <map>
#include <thread>

#include "absl/time/time.h"
#include "base/mutex.h"

namespace dp::engine {
namespace {

// How long a completion that is already there may take to be noticed.
constexpr absl::Duration kGlance = absl::Milliseconds(25);
// The number of lane directions checked to name who is late; more would make the answer late too.
constexpr int kGlancesMax = 16;

// Runs `wait`, and `abort` if `wait` has not returned soon. Does so twice, since an earlier abort
// may end the first wait. Gloo cannot say whether a transfer has completed, and a timeout of its
// own closes all connections: the ranks would look dead to each other. Each glance starts a thread.
// Glances are rare: a group needs a handful when it ends or has failed. A standing thread would
// cost every process.
bool Glance(const std::function<bool()>& wait, const std::function<void()>& abort) {
  for (int glance = 0; glance < 2; ++glance) {
    Mutex mu;
    CondVar returned_changed;
    bool returned = false;
    std::jthread timer([&] {
      pthread_setname_np(pthread_self(), "gloo glance");
      MutexLock lock(mu);
      if (!returned_changed.WaitFor(mu, kGlance, [&] { return returned; })) abort();
    });
    const bool completed = wait();
    MutexLock lock(mu);
    returned = true;
    returned_changed.NotifyAll();
    if (completed) return true;
  }
  return false;
}

}  // namespace

int GlooTransfers::AddLane(int peer, void* data, size_t bytes) {
  lanes_.push_back({.peer = peer, .buffer = mesh_.Buffer(data, bytes)});
  return static_cast<int>(lanes_.size()) - 1;
}

bool GlooTransfers::Try(const Lane& lane, const std::function<bool()>& call) {
  try {
    const GlooCalls::Inside inside(mesh_.calls());
    return call();
  } catch (const std::exception&) {
    failed_peer_ = lane.peer;
    return false;
  }
}

bool GlooTransfers::Send(int number, uint64_t slot, size_t offset, size_t bytes) {
  Lane& lane = lanes_[number];
  lane.sends += 1;
  return Try(lane, [&] {
    lane.buffer->send(lane.peer, slot, offset, bytes);
    return true;
  });
}

bool GlooTransfers::Receive(int number, uint64_t slot, size_t offset, size_t bytes) {
  Lane& lane = lanes_[number];
  lane.receives += 1;
  return Try(lane, [&] {
    lane.buffer->recv(lane.peer, slot, offset, bytes);
    return true;
  });
}

bool GlooTransfers::CompleteReceive(Lane& lane) {
  if (!Try(lane, [&] { return lane.buffer->waitRecv(nullptr, kForever); })) return false;
  lane.receives -= 1;
  lane.done += 1;
  return true;
}

bool GlooTransfers::CompleteSend(Lane& lane) {
  if (!Try(lane, [&] { return lane.buffer->waitSend(nullptr, kForever); })) return false;
  lane.sends -= 1;
  lane.done += 1;
  return true;
}

bool GlooTransfers::WaitReceived(int number) {
  Lane& lane = lanes_[number];
  while (lane.received == 0) {
    if (CompleteReceive(lane)) return true;
    if (!MayGoOn()) return false;
  }
  lane.received -= 1;
  return true;
}

bool GlooTransfers::WaitSent(int number) {
  Lane& lane = lanes_[number];
  while (lane.sent == 0) {
    if (CompleteSend(lane)) return true;
    if (!MayGoOn()) return false;
  }
  lane.sent -= 1;
  return true;
}

bool GlooTransfers::MayGoOn() {
  if (failed_peer_ >= 0 || stopped_() || !mesh_.DeadPeers().empty()) return false;
  // A peer may leave in good order while others still work on its last operation. Its leaving is no
  // failure if all transfers with it have completed.
  for (int peer : mesh_.EndedPeers())
    for (Lane& lane : lanes_)
      if (lane.peer == peer && !Drain(lane)) {
        failed_peer_ = peer;
        return false;
      }
  return true;
}

bool GlooTransfers::Drain(Lane& lane) {
  while (lane.receives > 0) {
    if (!GlanceAtReceive(lane)) return false;
    lane.received += 1;
  }
  while (lane.sends > 0) {
    if (!GlanceAtSend(lane)) return false;
    lane.sent += 1;
  }
  return true;
}

bool GlooTransfers::GlanceAtReceive(Lane& lane) {
  return Glance([&] { return CompleteReceive(lane); }, [&] { lane.buffer->abortWaitRecv(); });
}

bool GlooTransfers::GlanceAtSend(Lane& lane) {
  return Glance([&] { return CompleteSend(lane); }, [&] { lane.buffer->abortWaitSend(); });
}

bool GlooTransfers::WaitAll() {
  for (int number = 0; number < static_cast<int>(lanes_.size()); ++number) {
    while (lanes_[number].receives + lanes_[number].received > 0)
      if (!WaitReceived(number)) return false;
    while (lanes_[number].sends + lanes_[number].sent > 0)
      if (!WaitSent(number)) return false;
  }
  return true;
}

void GlooTransfers::Interrupt() {
  for (Lane& lane : lanes_) {
    lane.buffer->abortWaitRecv();
    lane.buffer->abortWaitSend();
  }
}

std::vector<int> GlooTransfers::Laggards() {
  std::map<int, bool> progressed;  // by peer with incomplete transfers
  for (Lane& lane : lanes_)
    if (lane.sends + lane.receives > 0) progressed.emplace(lane.peer, false);
  for (Lane& lane : lanes_)
    if (auto peer = progressed.find(lane.peer); peer != progressed.end() && lane.done > 0)
      peer->second = true;
  int glances = 0;
  for (Lane& lane : lanes_) {
    auto peer = progressed.find(lane.peer);
    if (peer == progressed.end() || peer->second || glances >= kGlancesMax) continue;
    glances += 2;
    peer->second =
        (lane.receives > 0 && GlanceAtReceive(lane)) || (lane.sends > 0 && GlanceAtSend(lane));
  }
  std::vector<int> silent, all;
  for (const auto& [peer, has_progressed] : progressed) {
    all.push_back(peer);
    if (!has_progressed) silent.push_back(peer);
  }
  return silent.empty() ? all : silent;
}

}  // namespace dp::engine
