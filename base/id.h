#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace dp {

// A number that names one kind of thing, so that a job is never passed where a worker is meant.
// Zero names nothing.
template <typename Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(uint64_t value) : value_(value) {}

  constexpr uint64_t value() const { return value_; }
  constexpr bool valid() const { return value_ != 0; }
  std::string ToString() const { return std::to_string(value_); }

  constexpr auto operator<=>(const Id&) const = default;

  template <typename H>
  friend H AbslHashValue(H hash, const Id& id) {
    return H::combine(std::move(hash), id.value_);
  }

 private:
  uint64_t value_ = 0;
};

using JobId = Id<struct JobTag>;
using WorkerId = Id<struct WorkerTag>;
// One life of a job's world. The first is 1.
using Generation = Id<struct GenerationTag>;
// One life of a daemon: drawn at random when it starts.
using Incarnation = Id<struct IncarnationTag>;
// One life of the coordinator. The first is 1.
using Epoch = Id<struct EpochTag>;
// Counts the applied commands of the coordinator; a topic's version is the revision of its last
// change.
using Revision = Id<struct RevisionTag>;

}  // namespace dp
