#include "worker/engine/collectives/gloo_transfers.h"

#include <exception>
#include <map>
#include <thread>

#include "absl/time/time.h"
#include "base/mutex.h"

namespace dp::engine {
namespace {

// How long a completion that is already there may take to be noticed.
constexpr absl::Duration kGlance = absl::Milliseconds(25);

// Runs `wait`, and `abort` if it has not returned soon. (Gloo has no question for whether a
// transfer has completed, and when a timeout of its own passes it closes all connections, after
// which every peer would look dead to the others.)
bool Glance(const std::function<bool()>& wait, const std::function<void()>& abort) {
  Mutex mu;
  CondVar returned_changed;
  bool returned = false;
  std::jthread timer([&] {
    MutexLock lock(mu);
    if (!returned) returned_changed.WaitFor(mu, kGlance);
    if (!returned) abort();
  });
  const bool completed = wait();
  MutexLock lock(mu);
  returned = true;
  returned_changed.NotifyAll();
  return completed;
}

}  // namespace

int GlooTransfers::AddLane(int peer, void* data, size_t bytes) {
  lanes_.push_back({.peer = peer, .buffer = mesh_.Buffer(data, bytes)});
  return static_cast<int>(lanes_.size()) - 1;
}

bool GlooTransfers::Try(const Lane& lane, const std::function<bool()>& call) {
  try {
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

bool GlooTransfers::WaitSent(int number) {
  Lane& lane = lanes_[number];
  if (!Try(lane, [&] { return lane.buffer->waitSend(nullptr, kForever); })) return false;
  lane.sends -= 1;
  lane.done += 1;
  return true;
}

bool GlooTransfers::WaitReceived(int number) {
  Lane& lane = lanes_[number];
  if (!Try(lane, [&] { return lane.buffer->waitRecv(nullptr, kForever); })) return false;
  lane.receives -= 1;
  lane.done += 1;
  return true;
}

bool GlooTransfers::WaitAll() {
  for (int number = 0; number < static_cast<int>(lanes_.size()); ++number) {
    while (lanes_[number].receives > 0)
      if (!WaitReceived(number)) return false;
    while (lanes_[number].sends > 0)
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

bool GlooTransfers::Progressed(Lane& lane) {
  gloo::transport::UnboundBuffer& buffer = *lane.buffer;
  if (lane.done > 0) return true;
  // An abort left over from Interrupt ends the first wait; the second one counts.
  for (int glance = 0; glance < 2; ++glance)
    if (Try(lane, [&] {
          if (lane.receives > 0)
            return Glance([&] { return buffer.waitRecv(nullptr, kForever); },
                          [&] { buffer.abortWaitRecv(); });
          return lane.sends > 0 && Glance([&] { return buffer.waitSend(nullptr, kForever); },
                                          [&] { buffer.abortWaitSend(); });
        }))
      return true;
  return false;
}

std::vector<int> GlooTransfers::Laggards() {
  std::map<int, bool> progressed;  // by peer with something left to do
  for (Lane& lane : lanes_)
    if (lane.sends + lane.receives > 0) progressed.emplace(lane.peer, false);
  for (Lane& lane : lanes_)
    if (auto peer = progressed.find(lane.peer); peer != progressed.end() && !peer->second)
      peer->second = Progressed(lane);
  std::vector<int> silent, all;
  for (const auto& [peer, has_progressed] : progressed) {
    all.push_back(peer);
    if (!has_progressed) silent.push_back(peer);
  }
  return silent.empty() ? all : silent;
}

}  // namespace dp::engine
