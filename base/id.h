#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace dp {

// A number with the type of what it names, so that a job is never passed as a worker. Zero names
// nothing.
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
// Counts the worlds of a job. The first is 1.
using Generation = Id<struct GenerationTag>;
// Identifies a daemon process. Drawn at random at its start, and anew after it was declared lost.
using Incarnation = Id<struct IncarnationTag>;
// Identifies a coordinator process. At least the microseconds since 1970 at its start, except in
// journals of early releases.
using Epoch = Id<struct EpochTag>;
// Grows with each applied command of the coordinator; a topic's version is the revision of its last
// change.
using Revision = Id<struct RevisionTag>;

}  // namespace dp
