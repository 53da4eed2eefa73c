#include "worker/agent/log_shipper.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "worker/agent/text.h"

namespace dp::worker {
namespace {

// How late a line may leave: the files are looked at this often while ranks run.
constexpr absl::Duration kLookAgain = absl::Milliseconds(100);
// One request; the coordinator takes four times as much.
constexpr size_t kBatchBytesMax = 1 << 20;
// One stream's share of it, so that a rank that floods does not keep the others from being heard.
constexpr size_t kChunkBytesMax = 128 << 10;
constexpr size_t kRankBytesMax = std::size(kLogStreams) * kChunkBytesMax;
constexpr absl::Duration kAppendDeadline = absl::Seconds(10);
// Four orders a rank, for a thousand slots; more is a bug of ours.
constexpr size_t kShipOrdersMax = 8192;

uint64_t FileSize(const FileDescriptor& file) {
  struct stat info {};
  return file.valid() && fstat(file.get(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

}  // namespace

LogShipper::LogShipper(client::LogsConnection& connection, uint64_t seed, Sink sink)
    : connection_(connection),
      sink_(std::move(sink)),
      orders_(kShipOrdersMax),
      backoff_(BackoffOptions{}, seed) {
  thread_ = std::jthread([this] { Loop(); });
  pthread_setname_np(thread_.native_handle(), "log_shipper");
}

LogShipper::~LogShipper() { orders_.Close(); }

void LogShipper::Use(const Session& session) { Push(UseOrder{session}); }
void LogShipper::Follow(const RankKey& key, const LogSpool& spool) {
  Push(FollowOrder{key, spool});
}
void LogShipper::Finish(const RankKey& key) { Push(FinishOrder{key}); }
void LogShipper::Drop(const RankKey& key) { Push(DropOrder{key}); }

void LogShipper::Push(Order order) { DP_CHECK(orders_.TryPush(order)); }

void LogShipper::Loop() {
  while (!orders_.closed()) {
    for (const Order& order : orders_.DrainFor(Patience())) {
      std::visit([this](const auto& each) { CarryOut(each); }, order);
    }
    pause_ = absl::ZeroDuration();
    if (session_) ShipOnce();
    TellFinished();
  }
}

// How long to wait for orders: not at all while there is more to send.
absl::Duration LogShipper::Patience() {
  if (pause_ > absl::ZeroDuration()) return pause_;
  if (more_) return absl::ZeroDuration();
  return ranks_.empty() ? absl::InfiniteDuration() : kLookAgain;
}

void LogShipper::CarryOut(const UseOrder& order) { session_ = order.session; }

void LogShipper::CarryOut(const FollowOrder& order) {
  RankLogs logs;
  for (size_t i = 0; i < logs.tails.size(); ++i) {
    logs.tails[i].file =
        FileDescriptor(open(order.spool.path(kLogStreams[i]).c_str(), O_RDONLY | O_CLOEXEC));
  }
  const bool added = ranks_.emplace(order.key, std::move(logs)).second;
  DP_CHECK(added);
}

void LogShipper::CarryOut(const FinishOrder& order) {
  const auto logs = ranks_.find(order.key);
  if (logs != ranks_.end()) logs->second.finished = true;
}

void LogShipper::CarryOut(const DropOrder& order) { ranks_.erase(order.key); }

void LogShipper::ShipOnce() {
  const v1::AppendLogsRequest batch = NextBatch();
  more_ = batch.chunks_size() > 0;
  if (!more_) return;
  const auto response = connection_.AppendLogs(batch, kAppendDeadline);
  if (response.ok()) {
    TakeAcknowledgement(batch, *response);
    return;
  }
  trouble_.Failed(response.status());
  // A job that the coordinator does not know wants no logs; any other refusal concerns the session,
  // and the lease finds that out.
  if (absl::IsNotFound(response.status())) GiveUp(batch.job());
  pause_ = backoff_.Next();
}

// Takes ranks in a circle from the cursor on, as far as one job goes: the next batch is the next
// job's, however much this one has still to say.
v1::AppendLogsRequest LogShipper::NextBatch() {
  v1::AppendLogsRequest batch;
  batch.set_worker_id(session_->worker_id);
  batch.set_incarnation(session_->incarnation.value());
  auto rank = ranks_.lower_bound(cursor_);
  for (size_t visited = 0; visited < ranks_.size(); ++visited) {
    if (rank == ranks_.end()) rank = ranks_.begin();
    cursor_ = rank->first;
    const bool same_job = batch.job() == cursor_.job.value();
    const bool full = batch.ByteSizeLong() + kRankBytesMax > kBatchBytesMax;
    if (batch.chunks_size() > 0 && (full || !same_job)) break;
    AddChunks(rank->first, rank->second, &batch);
    ++rank;
  }
  return batch;
}

void LogShipper::AddChunks(const RankKey& key, RankLogs& logs, v1::AppendLogsRequest* batch) {
  for (size_t i = 0; i < logs.tails.size(); ++i) {
    const Tail& tail = logs.tails[i];
    const uint64_t size = FileSize(tail.file);
    if (size <= tail.acknowledged) continue;
    std::string data(std::min<uint64_t>(size - tail.acknowledged, kChunkBytesMax), '\0');
    const ssize_t got =
        pread(tail.file.get(), data.data(), data.size(), static_cast<off_t>(tail.acknowledged));
    data.resize(got < 0 ? 0 : static_cast<size_t>(got));
    const bool ended = logs.finished && tail.acknowledged + data.size() == size;
    data.resize(ShippableBytes(data, ended));
    if (data.empty()) continue;
    batch->set_job(key.job.value());
    v1::LogChunk* chunk = batch->add_chunks();
    chunk->set_generation(key.generation.value());
    chunk->set_rank(key.rank);
    chunk->set_stream(kLogStreams[i]);
    chunk->set_offset(tail.acknowledged);
    chunk->set_data(std::move(data));
  }
}

// What is stored is the coordinator's to say, backwards too: the file still has it.
void LogShipper::TakeAcknowledgement(const v1::AppendLogsRequest& batch,
                                     const v1::AppendLogsResponse& response) {
  bool moved = false;
  for (const v1::LogPosition& position : response.acknowledged()) {
    const RankKey key{JobId(batch.job()), Generation(position.generation()), position.rank()};
    const auto logs = ranks_.find(key);
    const auto stream =
        std::find(std::begin(kLogStreams), std::end(kLogStreams), position.stream());
    if (logs == ranks_.end() || stream == std::end(kLogStreams)) continue;
    Tail& tail = logs->second.tails[static_cast<size_t>(stream - std::begin(kLogStreams))];
    if (tail.acknowledged == position.offset()) continue;
    tail.acknowledged = position.offset();
    moved = true;
    sink_({key, /*all=*/false});
  }
  if (moved) {
    backoff_.Reset();
    trouble_.Worked();
  } else {
    trouble_.Failed(absl::AbortedError("the coordinator stored nothing of a batch"));
    pause_ = backoff_.Next();
  }
}

void LogShipper::GiveUp(uint64_t job) {
  for (auto& [key, logs] : ranks_) {
    if (key.job.value() != job) continue;
    for (Tail& tail : logs.tails) tail.file.Close();
  }
}

void LogShipper::TellFinished() {
  for (auto& [key, logs] : ranks_) {
    if (!logs.finished || logs.reported) continue;
    const bool stored = std::all_of(logs.tails.begin(), logs.tails.end(), [](const Tail& tail) {
      return FileSize(tail.file) <= tail.acknowledged;
    });
    if (!stored) continue;
    logs.reported = true;
    sink_({key, /*all=*/true});
  }
}

}  // namespace dp::worker
