#include "client/grpc_park_stream.h"

#include <cstddef>
#include <utility>

namespace dp::client {
namespace {

// Bytes of the waits in one message; a single wait may have more.
constexpr size_t kWaitBytesPerMessage = size_t{1} << 20;
// The coordinator processes each stream's message as a whole, beside all its other work.
constexpr int kWaitsPerMessage = 512;

absl::StatusOr<v1::AwaitResponse> ToResponse(v1::ParkedAnswer& answer) {
  if (answer.code() == 0) return std::move(*answer.mutable_response());
  return absl::Status(static_cast<absl::StatusCode>(answer.code()), answer.message());
}

}  // namespace

class GrpcParkStream::Wait final : public StoreLink::Call {
 public:
  Wait(std::weak_ptr<GrpcParkStream> stream, uint64_t id) : stream_(std::move(stream)), id_(id) {}
  void Cancel() override {
    if (const auto stream = stream_.lock()) stream->Cancel(id_);
  }

 private:
  const std::weak_ptr<GrpcParkStream> stream_;
  const uint64_t id_;
};

void GrpcParkStream::Start(v1::Store::Stub& stub) {
  {
    MutexLock lock(mu_);
    self_ = shared_from_this();
  }
  stub.async()->Park(&context_, this);
  AddHold();  // until the stream breaks: any thread may write
  StartRead(&response_);
  StartCall();
}

std::shared_ptr<StoreLink::Call> GrpcParkStream::Park(v1::AwaitRequest request,
                                                      Done<v1::AwaitResponse> done) {
  absl::Status end;
  uint64_t id;
  {
    MutexLock lock(mu_);
    id = ++last_id_;
    end = end_;
    if (end.ok()) {
      open_.emplace(id, Open{std::move(request), std::move(done)});
      unsent_.push_back(id);
    }
  }
  if (end.ok()) {
    Write();
  } else {
    std::move(done)(end);
  }
  return std::make_shared<Wait>(weak_from_this(), id);
}

void GrpcParkStream::Cancel(uint64_t id) {
  Done<v1::AwaitResponse> done;
  {
    MutexLock lock(mu_);
    const auto it = open_.find(id);
    if (it == open_.end()) return;
    done = std::move(it->second.done);
    if (it->second.sent) cancelled_.push_back(id);
    open_.erase(it);
  }
  Write();
  std::move(done)(absl::CancelledError("by its caller"));
}

void GrpcParkStream::Write() {
  {
    MutexLock lock(mu_);
    if (writing_ || broken_) return;
    FillRequest();
    if (request_.waits().empty() && request_.cancelled().empty()) return;
    writing_ = true;
    AddHold();  // safe: the hold of Start lasts until it is broken
  }
  StartWrite(&request_);
  RemoveHold();
}

void GrpcParkStream::FillRequest() {
  request_.Clear();
  for (const uint64_t id : std::exchange(cancelled_, {})) request_.add_cancelled(id);
  size_t bytes = 0;
  while (!unsent_.empty() && request_.waits_size() < kWaitsPerMessage) {
    const auto it = open_.find(unsent_.front());
    if (it != open_.end()) {
      bytes += it->second.request.ByteSizeLong();
      if (bytes > kWaitBytesPerMessage && !request_.waits().empty()) return;
      v1::ParkedWait& wait = *request_.add_waits();
      wait.set_id(it->first);
      *wait.mutable_await() = std::move(it->second.request);
      it->second.sent = true;
    }
    unsent_.pop_front();
  }
}

void GrpcParkStream::OnWriteDone(bool ok) {
  {
    MutexLock lock(mu_);
    writing_ = false;
  }
  if (ok) Write();
}

void GrpcParkStream::OnReadDone(bool ok) {
  std::vector<Told> told;
  {
    MutexLock lock(mu_);
    broken_ = !ok;
    if (ok) told = TakeAnswers();
  }
  for (auto& [done, answer] : told) std::move(done)(std::move(answer));
  if (ok) {
    StartRead(&response_);
  } else {
    RemoveHold();
  }
}

// Waits that were cancelled meanwhile have their answer already.
std::vector<GrpcParkStream::Told> GrpcParkStream::TakeAnswers() {
  std::vector<Told> told;
  for (v1::ParkedAnswer& answer : *response_.mutable_answers()) {
    auto open = open_.extract(answer.id());
    if (!open.empty()) told.emplace_back(std::move(open.mapped().done), ToResponse(answer));
  }
  return told;
}

void GrpcParkStream::OnDone(const grpc::Status& status) {
  bool closed;
  {
    MutexLock lock(mu_);
    closed = closed_;
  }
  absl::Status end = on_end_(context_, status, closed);
  if (end.ok()) end = absl::UnavailableError("the coordinator has ended the stream of waits");
  absl::flat_hash_map<uint64_t, Open> open;
  {
    MutexLock lock(mu_);
    end_ = end;
    open = std::exchange(open_, {});
  }
  for (auto& [id, wait] : open) std::move(wait.done)(end);
  std::shared_ptr<GrpcParkStream> self;
  MutexLock lock(mu_);
  all_told_ = true;
  self = std::move(self_);
  changed_.NotifyAll();
}

bool GrpcParkStream::ended() const {
  MutexLock lock(mu_);
  return !end_.ok();
}

void GrpcParkStream::Close() {
  MutexLock lock(mu_);
  closed_ = true;
  // Under the lock, so that the stream does not end meanwhile. TryCancel never blocks, and the
  // reactions come on other threads.
  if (end_.ok()) context_.TryCancel();
  while (!all_told_) changed_.Wait(mu_);
}

}  // namespace dp::client
