#include "worker/engine/collectives/exchange/exchange_group.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/engine/collectives/exchange/exchange_operations.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/links/group_links.h"
#include "worker/engine/collectives/operation_queue.h"

namespace dp::engine {
namespace {

// The error as one of the operation `name`.
absl::Status ErrorIn(const std::string& name, const absl::Status& status) {
  absl::Status error(status.code(), absl::StrCat(name, ": ", status.message()));
  status.ForEachPayload(
      [&](absl::string_view type, const absl::Cord& payload) { error.SetPayload(type, payload); });
  return error;
}

class ExchangeGroup : public Group {
 public:
  ExchangeGroup(std::unique_ptr<Exchanger> exchanger, int rank, int size,
                const GroupOptions& options, std::optional<absl::StatusOr<LinkMembership>> links)
      : exchanger_(std::move(exchanger)),
        rank_(rank),
        size_(size),
        queue_(options,
               [this] {
                 if (Stopped()) exchanger_->Interrupt();
               }),
        links_(queue_, options.timeout) {
    if (links) links_.Open(*std::move(links));
  }

  // The links go before the queue.
  ~ExchangeGroup() override { queue_.Close(); }

  std::unique_ptr<Work> Connect() {
    return queue_.Push("connect", [this] { return Outcome("connect", Meet()); });
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<Work> Start(Collective call) override {
    const uint64_t number = ++operations_;
    const std::string name = absl::StrCat(NameOf(call), " ", call.number.value_or(number));
    const auto timeout = call.timeout;
    const auto run = [this, name, call = std::move(call)] { return Outcome(name, Run(call)); };
    return queue_.Push(name, run, timeout);
  }

  // A meeting, since a peer may still read what this rank has sent. Nobody waits for a rank that is
  // gone.
  std::unique_ptr<Work> Leave() override {
    return queue_.Push("leave", [this]() -> absl::Status {
      const absl::Status met = Meet();
      return Stopped() ? Outcome("leave", met) : absl::OkStatus();
    });
  }

  std::unique_ptr<Work> Pass(const Message& message) override {
    return links_.links() != nullptr ? links_.Pass(message) : Group::Pass(message);
  }

  void Abort(const absl::Status& why) override {
    queue_.Abort(why);
    links_.Abort(why);
  }

 private:
  bool Stopped() const { return queue_.stop_reason().kind != StopReason::Kind::kNone; }

  absl::Status Meet() {
    const Collective meeting{.shape = {.kind = CallShape::Kind::kBarrier}};
    return RunByExchanges(*exchanger_, rank_, size_, meeting, scratch_);
  }

  absl::Status Outcome(const std::string& name, const absl::Status& status) const {
    if (status.ok()) return status;
    return Stopped() ? queue_.StopError(name, MissingRanks(status)) : ErrorIn(name, status);
  }

  absl::Status Run(const Collective& call) {
    if (std::optional<absl::Status> status = exchanger_->Run(call)) return *std::move(status);
    return RunByExchanges(*exchanger_, rank_, size_, call, scratch_);
  }

  const std::unique_ptr<Exchanger> exchanger_;
  const int rank_;
  const int size_;
  uint64_t operations_ = 0;
  std::vector<uint8_t> scratch_;  // the queue thread's
  OperationQueue queue_;          // its thread uses what is above
  GroupLinks links_;              // last: they end first
};

}  // namespace

absl::StatusOr<std::unique_ptr<Group>> ConnectExchange(
    std::unique_ptr<Exchanger> exchanger, int rank, int size, const GroupOptions& options,
    std::optional<absl::StatusOr<LinkMembership>> links) {
  auto group =
      std::make_unique<ExchangeGroup>(std::move(exchanger), rank, size, options, std::move(links));
  DP_RETURN_IF_ERROR(group->Connect()->Wait());
  return group;
}

}  // namespace dp::engine
