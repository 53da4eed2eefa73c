#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace dp::server {

// How much each host may send before anybody there has proven who calls. gRPC handles such bytes
// before any call is checked, and resets, pings and metadata cost far more than they weigh. A host
// that sends more owes the time in which its rate would have let the bytes through.
//
// Hosts do not slow each other down. A host without recent bytes need not be remembered. Pure: time
// is an argument, and never goes back. Not thread-safe.
class StrangerBytes {
 public:
  struct Limits {
    // Twenty checks of the coordinator's health, or twelve enrolments.
    double per_second = 64 << 10;
    // More than one message of the largest size, whose call proves who calls once it is whole. Also
    // enough for thousands of hosts that join behind one address.
    double at_once = 21 << 20;
    // A host owes no longer than this, whatever it has sent. Others behind its address then get
    // through before they give up, which clients do after 10 s, and daemons keep their leases.
    absl::Duration owes_max = absl::Seconds(2);
    // Remembered hosts, each about 100 bytes. Further ones share one rate.
    size_t hosts = 65'536;
  };

  explicit StrangerBytes(const Limits& limits) : limits_(limits) {}

  // Counts bytes that a host has sent.
  void Add(absl::string_view host, uint64_t bytes, absl::Time now);
  // Whoever has sent them has proven who calls.
  void GiveBack(absl::string_view host, uint64_t bytes, absl::Time now);
  // The host owes for as long as a host can, if there is room to remember it.
  void HoldBack(absl::string_view host, absl::Time now);
  // Until when the host owes; in the past: it does not.
  absl::Time owes_until(absl::string_view host) const;

  size_t hosts() const { return full_at_.size(); }

 private:
  absl::Duration TimeFor(uint64_t bytes) const;
  void MakeRoom(absl::Time now);
  bool full() const { return full_at_.size() >= limits_.hosts; }

  const Limits limits_;
  // When each host will again have at_once bytes.
  absl::flat_hash_map<std::string, absl::Time> full_at_;
  absl::Time others_full_at_ = absl::InfinitePast();
  absl::Time made_room_at_ = absl::InfinitePast();
};

}  // namespace dp::server
