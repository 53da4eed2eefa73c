#include "worker/engine/collectives/shm/rank_watch.h"

#include <pthread.h>

#include <cerrno>
#include <utility>

#include "base/check.h"

namespace dp::engine {
namespace {

bool EndsInHangUp(const pollfd& line) { return (line.revents & (POLLHUP | POLLERR)) != 0; }

// poll fails only where a signal interrupts it.
void Poll(std::vector<pollfd>& lines, int timeout_ms) {
  while (poll(lines.data(), lines.size(), timeout_ms) < 0) DP_CHECK(errno == EINTR);
}

}  // namespace

RankWatch::RankWatch(RankTicks& ticks, int rank, LifeLines lines)
    : ticks_(ticks), rank_(rank), lines_(std::move(lines)), thread_([this] {
        pthread_setname_np(pthread_self(), "shm watch");
        Watch();
      }) {}

RankWatch::~RankWatch() { lines_.own.Close(); }

// A hang-up is reported without being asked for.
std::vector<pollfd> RankWatch::Polled() const {
  std::vector<pollfd> polled;
  for (const FileDescriptor& line : lines_.of_all) polled.push_back({line.get(), 0, 0});
  return polled;
}

void RankWatch::Watch() {
  std::vector<pollfd> polled = Polled();
  for (;;) {
    Poll(polled, /*timeout_ms=*/-1);
    if (EndsInHangUp(polled[rank_])) return;
    bool died = false;
    for (size_t r = 0; r < polled.size(); ++r) {
      if (!EndsInHangUp(polled[r])) continue;
      polled[r] = {-1, 0, 0};  // poll skips it from now on
      died = died || !ticks_.HasLeft(static_cast<int>(r));
    }
    // A rank may have been killed between its leave and the rings that announce it.
    died ? ticks_.Interrupt() : ticks_.RingSelf();
  }
}

std::vector<bool> RankWatch::HungUp() const {
  std::vector<pollfd> polled = Polled();
  Poll(polled, /*timeout_ms=*/0);
  std::vector<bool> hung_up;
  for (const pollfd& line : polled) hung_up.push_back(EndsInHangUp(line));
  return hung_up;
}

// A rank leaves before its line hangs up, so the lines come first.
std::vector<int> RankWatch::DeadPeers() const {
  const std::vector<bool> hung_up = HungUp();
  std::vector<int> dead;
  for (int r = 0; r < static_cast<int>(hung_up.size()); ++r)
    if (hung_up[r] && !ticks_.HasLeft(r)) dead.push_back(r);
  return dead;
}

std::vector<int> RankWatch::PeersHere() const {
  const std::vector<bool> hung_up = HungUp();
  std::vector<int> here;
  for (int r = 0; r < static_cast<int>(hung_up.size()); ++r)
    if (r != rank_ && !hung_up[r] && !ticks_.HasLeft(r)) here.push_back(r);
  return here;
}

}  // namespace dp::engine
