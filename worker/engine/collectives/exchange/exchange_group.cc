#include "worker/engine/collectives/exchange/exchange_group.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status.h"
#include "worker/engine/collectives/call_watch.h"
#include "worker/engine/collectives/exchange/exchange_operations.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/links/group_links.h"
#include "worker/engine/collectives/operation_queue.h"

namespace dp::engine {
namespace {

class ExchangeGroup : public Group {
 public:
  ExchangeGroup(std::unique_ptr<Exchanger> exchanger, int rank, int size,
                const GroupOptions& options, std::optional<absl::StatusOr<LinkMembership>> links)
      : exchanger_(std::move(exchanger)),
        rank_(rank),
        size_(size),
        watch_(rank, size, links_, [this] { exchanger_->InterruptDifferingCalls(); }),
        queue_(
            options, [this] { Stopped() ? exchanger_->Interrupt() : watch_.Look(); },
            Clock::Steady(), CallWatch::kLookInterval),
        links_(queue_, options.timeout) {
    if (links) links_.Open(*std::move(links), watch_.hooks());
  }

  // The links go before the queue.
  ~ExchangeGroup() override { queue_.Close(); }

  std::unique_ptr<Work> Connect(std::optional<absl::Duration> timeout) {
    const auto run = [this] { return Outcome("connect", Run(0, Meeting())); };
    return queue_.Push("connect", run, timeout);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<Work> Start(Collective call) override {
    const uint64_t number = ++operations_;
    const std::string name = absl::StrCat(NameOf(call), " ", call.number.value_or(number));
    const auto timeout = call.timeout;
    const auto run = [this, name, number, call = std::move(call)] {
      watch_.Called(NoteOf(number, call));
      const absl::Status status = Outcome(name, Run(number, call));
      watch_.Ended();
      return status;
    };
    return queue_.Push(name, run, timeout);
  }

  // A meeting, since a peer may still read what this rank has sent. Nobody waits for a rank that is
  // gone.
  std::unique_ptr<Work> Leave() override {
    const uint64_t number = operations_ + 1;
    return queue_.Push("leave", [this, number]() -> absl::Status {
      watch_.Called({.number = number, .leaves = true});
      const absl::Status met = Outcome("leave", Run(kLeaving | number, Meeting()));
      watch_.Ended();
      return Stopped() || !watch_.LeaveError().ok() ? met : absl::OkStatus();
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

  // With the number of a call: no peer takes the meeting for one of its calls.
  static constexpr uint64_t kLeaving = uint64_t{1} << 63;

  static Collective Meeting() { return {.shape = {.kind = CallShape::Kind::kBarrier}}; }

  absl::Status Run(uint64_t number, const Collective& call) {
    if (!watch_.difference().ok()) return watch_.difference();
    exchanger_->Begin(number, call.shape);
    if (std::optional<absl::Status> status = exchanger_->Run(call)) return *std::move(status);
    return RunByExchanges(*exchanger_, rank_, size_, call, scratch_);
  }

  // A peer that found the difference first may be gone already. Its verdict then is here.
  absl::Status Outcome(const std::string& name, const absl::Status& status) {
    if (status.ok()) return status;
    if (absl::IsUnavailable(status) && links_.links() != nullptr) links_.links()->CatchUp();
    if (!watch_.difference().ok()) return watch_.ErrorOf(name);
    return Stopped() ? queue_.StopError(name, MissingRanks(status)) : InOperation(name, status);
  }

  const std::unique_ptr<Exchanger> exchanger_;
  const int rank_;
  const int size_;
  uint64_t operations_ = 0;
  std::vector<uint8_t> scratch_;  // the queue thread's
  CallWatch watch_;
  OperationQueue queue_;  // its thread uses what is above
  GroupLinks links_;      // last: they end first
};

}  // namespace

absl::StatusOr<std::unique_ptr<Group>> ConnectExchange(
    std::unique_ptr<Exchanger> exchanger, int rank, int size, const GroupOptions& options,
    std::optional<absl::StatusOr<LinkMembership>> links,
    std::optional<absl::Duration> connect_timeout) {
  auto group =
      std::make_unique<ExchangeGroup>(std::move(exchanger), rank, size, options, std::move(links));
  DP_RETURN_IF_ERROR(group->Connect(connect_timeout)->Wait());
  return group;
}

}  // namespace dp::engine
