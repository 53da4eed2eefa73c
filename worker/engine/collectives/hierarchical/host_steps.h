#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/collectives/hierarchical/host_plan.h"

namespace dp::engine {

// Memory of a rank that the ranks of its host read. It has places for data, which this rank stages
// for its peers, and for results, which it has made or received for them.
class StagingArea {
 public:
  static constexpr size_t kAreaBytes = size_t{4} << 20;
  static constexpr size_t kBytes = 4 * kAreaBytes;

  explicit StagingArea(uint8_t* memory = nullptr) : memory_(memory) {}

  // The place of the chunk; two chunks in sequence have different places.
  uint8_t* data(size_t chunk) const { return memory_ + chunk % 2 * kAreaBytes; }
  uint8_t* results(size_t chunk) const { return memory_ + (2 + chunk % 2) * kAreaBytes; }

 private:
  uint8_t* memory_;
};

// A rank of a group on several hosts, as its operations see it.
struct HostRank {
  const HostPlan* plan = nullptr;
  int rank = 0;
  Group* local = nullptr;            // the ranks of this host; null if this rank is alone there
  Group* between = nullptr;          // all ranks
  std::vector<StagingArea> staging;  // by rank; empty for ranks of other hosts
  // Kept, since fresh pages cost more than sums.
  std::vector<uint8_t> scratch;

  int host() const { return plan->host_of(rank); }
};

// Starts the steps of one operation: smaller operations of the groups below it, which have its
// name, its number and its deadline.
class HostSteps {
 public:
  HostSteps(HostRank& self, absl::string_view name, uint64_t number, absl::Time deadline)
      : self_(self), name_(name), number_(number), deadline_(deadline) {}

  // The first step of each operation. Ends when every rank has begun a call of this shape, and all
  // ranks of this host have come here. Names the ranks that have not.
  absl::Status MeetEverybody(const CallShape& shape) const {
    Collective meeting = Named({.shape = shape});
    meeting.only_meets = true;
    const auto met = self_.between->Start(std::move(meeting));
    // At the same time: a rank that is missing here is missing there too.
    const auto met_on_host =
        self_.local == nullptr ? nullptr : self_.local->Start(Named(Barrier()));
    absl::Status status = met->Wait();
    if (!status.ok() || met_on_host == nullptr) return status;
    return Explained(met_on_host->Wait());
  }
  // Ends when every rank of this host has come here.
  absl::Status MeetOnHost() const {
    if (self_.local == nullptr) return absl::OkStatus();
    return Explained(self_.local->Start(Named(Barrier()))->Wait());
  }
  // An error of the ranks of this host. A peer may have left because a rank of another host died,
  // which the connections between all ranks show.
  absl::Status Explained(const absl::Status& on_host) const {
    if (!absl::IsUnavailable(on_host)) return on_host;
    Collective question = Named(Barrier());
    question.timeout = kExplainedWithin;
    absl::Status answer = self_.between->Start(std::move(question))->Wait();
    return absl::IsUnavailable(answer) ? answer : on_host;
  }
  // Pieces between hosts.
  std::unique_ptr<Work> Between(std::vector<absl::Span<const uint8_t>> sent,
                                std::vector<absl::Span<uint8_t>> received) const {
    return self_.between->Start(Named({.shape = {.kind = CallShape::Kind::kExchange},
                                       .sent = std::move(sent),
                                       .received = std::move(received)}));
  }
  // The call as it is, over one of the groups.
  std::unique_ptr<Work> Start(Group& group, const Collective& call) const {
    return group.Start(Named(call));
  }

 private:
  // An end of a connection shows at once.
  static constexpr absl::Duration kExplainedWithin = absl::Milliseconds(500);

  static Collective Barrier() { return {.shape = {.kind = CallShape::Kind::kBarrier}}; }

  Collective Named(Collective call) const {
    call.step_of = name_;
    call.number = number_;
    call.timeout = deadline_ - Clock::Steady().Now();
    return call;
  }

  HostRank& self_;
  const absl::string_view name_;
  const uint64_t number_;
  const absl::Time deadline_;
};

}  // namespace dp::engine
