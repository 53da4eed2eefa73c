#include "worker/engine/collectives/gloo/gloo_mesh.h"

#include <netinet/in.h>
#include <pthread.h>

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/status.h"
#include "gloo/transport/address.h"
#include "gloo/transport/pair.h"
#include "gloo/transport/tcp/address.h"
#include "gloo/transport/tcp/device.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/gloo/interfaces.h"
#include "worker/engine/collectives/sigpipe.h"
#include "worker/engine/collectives/store_arrival.h"

namespace dp::engine {
namespace {

// Slots of the watch. Operations use only lower ones.
constexpr uint64_t kGoodbyeSlot = ~uint64_t{0};
constexpr uint64_t kFirstAlarmSlot = kGoodbyeSlot - 1;

// Returns false if the connection has ended.
bool PostReceive(gloo::transport::UnboundBuffer& buffer, int rank, uint64_t slot) {
  try {
    buffer.recv(rank, slot);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// Returns true when a connection on which `alarm` was receiving has ended, false when aborted.
bool WaitForEnd(gloo::transport::UnboundBuffer& alarm) {
  try {
    return alarm.waitRecv(nullptr, kForever);
  } catch (const std::exception&) {
    return true;
  }
}

}  // namespace

GlooMesh::GlooMesh(int rank, int size, std::function<void()> on_end)
    : rank_(rank), size_(size), on_end_(std::move(on_end)), goodbyes_(size), ended_(size) {}

GlooMesh::~GlooMesh() {
  {
    MutexLock lock(mu_);
    closing_ = true;
    if (alarm_ != nullptr) alarm_->abortWaitRecv();
  }
  if (watch_.joinable()) watch_.join();
}

// A rank's card: the list of its interfaces, which has no line break, and its addresses.
absl::Status GlooMesh::Connect(Store& store, const GlooOptions& options,
                               const std::string& interfaces, const std::function<bool()>& stopped,
                               std::vector<int>* missing) {
  BlockSigpipe();
  DP_RETURN_IF_ERROR(Open(options, stopped));
  DP_RETURN_IF_ERROR(ListenToPeers());
  DP_ASSIGN_OR_RETURN(const std::vector<std::string> cards,
                      AwaitRanks(store, "gloo", rank_, size_,
                                 absl::StrCat(interfaces, "\n", Card()), stopped, missing));
  std::vector<std::string> lists, places;
  for (const std::string& card : cards) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(card, absl::MaxSplits('\n', 1));
    lists.push_back(parts.first);
    places.push_back(parts.second);
  }
  DP_RETURN_IF_ERROR(CheckListsAsLong(lists));
  DP_ASSIGN_OR_RETURN(const std::vector<std::string> addresses, ReadCards(places));
  DP_RETURN_IF_ERROR(ConnectPairs(addresses, stopped, missing));
  StartWatch();
  return absl::OkStatus();
}

absl::Status GlooMesh::Open(const GlooOptions& options, const std::function<bool()>& stopped) {
  gloo::transport::tcp::attr attributes;
  attributes.iface = options.interface;
  attributes.hostname = options.address;
  try {
    device_ = gloo::transport::tcp::CreateDevice(attributes);
    context_ = device_->createContext(rank_, size_);
    context_->setTimeout(kForever);
    for (int r = 0; r < size_; ++r) {
      if (stopped()) return absl::AbortedError("stopped");  // a world size may be a mistake
      if (r != rank_) context_->createPair(r);
    }
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("gloo cannot listen on interface '",
                                                   options.interface, "', address '",
                                                   options.address, "': ", error.what()));
  }
  MutexLock lock(mu_);
  opened_ = true;
  return absl::OkStatus();
}

absl::Status GlooMesh::ListenToPeers() {
  if (size_ == 1) return absl::OkStatus();
  const auto own =
      gloo::transport::tcp::Address(context_->getPair(rank_ == 0 ? 1 : 0)->address().bytes());
  sockaddr_storage address = own.getSockaddr();
  auto& four = reinterpret_cast<sockaddr_in&>(address);
  auto& six = reinterpret_cast<sockaddr_in6&>(address);
  const bool is_six = address.ss_family == AF_INET6;
  (is_six ? six.sin6_port : four.sin_port) = 0;  // any free port
  DP_ASSIGN_OR_RETURN(link_listener_,
                      ListenForLinks({reinterpret_cast<const char*>(&address),
                                      is_six ? sizeof(sockaddr_in6) : sizeof(sockaddr_in)},
                                     size_));
  DP_ASSIGN_OR_RETURN(link_place_.address, AddressOfListener(link_listener_));
  link_place_.token = Unguessable();
  return absl::OkStatus();
}

std::string GlooMesh::Card() const { return absl::StrCat(Encode(link_place_), "\n", Addresses()); }

absl::StatusOr<std::vector<std::string>> GlooMesh::ReadCards(
    const std::vector<std::string>& cards) {
  std::vector<std::string> addresses;
  if (size_ == 1) return addresses;
  for (const std::string& card : cards) {
    const size_t end = card.find('\n');
    DP_ASSIGN_OR_RETURN(link_places_.emplace_back(), DecodeLinkPlace(card.substr(0, end)));
    addresses.push_back(end == std::string::npos ? "" : card.substr(end + 1));
  }
  return addresses;
}

absl::StatusOr<LinkMembership> GlooMesh::TakeLinks() {
  return JoinLinks(rank_, std::move(link_places_), std::move(link_listener_));
}

// The addresses of our side of every pair, padded to equal length, by rank; ours is blank.
std::string GlooMesh::Addresses() const {
  std::vector<std::string> addresses(size_);
  size_t width = 0;
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    const std::vector<char> bytes = context_->getPair(r)->address().bytes();
    addresses[r].assign(bytes.begin(), bytes.end());
    width = bytes.size();
  }
  std::string all;
  for (std::string& address : addresses) {
    address.resize(width);
    all += address;
  }
  return all;
}

absl::Status GlooMesh::ConnectPairs(const std::vector<std::string>& addresses,
                                    const std::function<bool()>& stopped,
                                    std::vector<int>* missing) {
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    const size_t width = addresses[r].size() / size_;
    const std::string address = addresses[r].substr(width * rank_, width);
    try {
      // Interrupt closes the pairs, which ends this wait: it returns or throws.
      const GlooCalls::Inside inside(calls_);
      context_->getPair(r)->connect({address.begin(), address.end()});
    } catch (const std::exception& error) {
      if (!stopped()) return WithMore(WentAway("connect", {r}), absl::StrCat(": ", error.what()));
    }
    if (stopped()) {
      missing->push_back(r);
      return absl::AbortedError("stopped");
    }
  }
  return absl::OkStatus();
}

void GlooMesh::Interrupt() {
  MutexLock lock(mu_);
  if (!opened_ || std::exchange(interrupted_, true)) return;
  // Safe under mu_: Gloo's close takes at most one tick of its loop and never calls back.
  for (int r = 0; r < size_; ++r)
    if (r != rank_) context_->getPair(r)->close();
}

std::unique_ptr<gloo::transport::UnboundBuffer> GlooMesh::Buffer(void* data, size_t bytes) {
  return context_->createUnboundBuffer(data, bytes);
}

void GlooMesh::StartWatch() {
  if (size_ == 1) return;
  Buffers goodbyes(static_cast<size_t>(size_));
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    goodbyes[r] = Buffer(&goodbyes_[r], 1);
    // If the connection has already ended, the first operation will fail.
    const GlooCalls::Inside inside(calls_);
    (void)PostReceive(*goodbyes[r], r, kGoodbyeSlot);
  }
  {
    MutexLock lock(mu_);
    goodbye_buffers_ = std::move(goodbyes);
  }
  watch_ = std::jthread([this] {
    pthread_setname_np(pthread_self(), "gloo watch");
    BlockSigpipe();
    Watch();
  });
}

void GlooMesh::Watch() {
  uint64_t generation = 0;
  while (AwaitEnd(generation)) ++generation;
  SayGoodbye();
}

bool GlooMesh::AwaitEnd(uint64_t generation) {
  uint8_t never_sent = 0;
  auto alarm = Buffer(&never_sent, 1);
  {
    MutexLock lock(mu_);
    if (closing_) return false;
    alarm_ = alarm.get();
  }
  // A connection that has already ended rejects the receive; one that ends later fails the wait.
  bool grown = false;
  for (int r = 0; r < size_; ++r)
    if (r != rank_ && !PostReceive(*alarm, r, kFirstAlarmSlot - generation))
      grown = MarkEnded(r) || grown;
  if (grown) on_end_();
  const bool rung = WaitForEnd(*alarm);
  MutexLock lock(mu_);
  alarm_ = nullptr;
  return rung;
}

bool GlooMesh::MarkEnded(int rank) {
  MutexLock lock(mu_);
  if (ended_[rank]) return false;
  ended_[rank] = true;
  return true;
}

std::vector<int> GlooMesh::EndedPeers() const {
  MutexLock lock(mu_);
  std::vector<int> ended;
  for (int r = 0; r < size_; ++r)
    if (ended_[r]) ended.push_back(r);
  return ended;
}

std::vector<int> GlooMesh::DeadPeers() {
  MutexLock lock(mu_);
  std::vector<int> dead;
  for (int r = 0; r < static_cast<int>(goodbye_buffers_.size()); ++r) {
    if (goodbye_buffers_[r] == nullptr) continue;
    // The wait is aborted before it begins, so it returns at once. It throws only if the connection
    // ended without a goodbye.
    goodbye_buffers_[r]->abortWaitRecv();
    try {
      (void)goodbye_buffers_[r]->waitRecv(nullptr, kForever);  // false: aborted
    } catch (const std::exception&) {
      dead.push_back(r);
    }
  }
  return dead;
}

bool GlooMesh::Leave(const std::function<bool()>& stopped) {
  {
    const GlooCalls::Inside inside(calls_);
    SayGoodbye();
  }
  for (int r = 0; r < size_; ++r)
    if (r != rank_ && !AwaitGoodbye(r, stopped)) return false;
  return true;
}

gloo::transport::UnboundBuffer& GlooMesh::GoodbyeOf(int rank) const {
  MutexLock lock(mu_);
  return *goodbye_buffers_[rank];
}

bool GlooMesh::AwaitGoodbye(int rank, const std::function<bool()>& stopped) {
  gloo::transport::UnboundBuffer& goodbye = GoodbyeOf(rank);
  try {
    while (!stopped()) {
      const GlooCalls::Inside inside(calls_);
      if (goodbye.waitRecv(nullptr, kForever)) return true;
    }
  } catch (const std::exception&) {
    return true;  // The peer is gone, for whatever reason.
  }
  return false;
}

void GlooMesh::InterruptLeave() {
  MutexLock lock(mu_);
  for (auto& buffer : goodbye_buffers_)
    if (buffer != nullptr) buffer->abortWaitRecv();
}

void GlooMesh::SayGoodbye() {
  if (!said_goodbyes_.empty()) return;
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    // The peer's receive has been pending since it connected. The byte leaves as soon as Gloo has
    // heard of that receive or, if the connection is congested, never. There is nothing to wait
    // for.
    try {
      said_goodbyes_.push_back(Buffer(&goodbyes_[rank_], 1));
      said_goodbyes_.back()->send(r, kGoodbyeSlot);
    } catch (const std::exception&) {
      // The peer left before us.
    }
  }
}

}  // namespace dp::engine
