#include "worker/agent/spool/log_shipper.h"

#include <pthread.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "dp/v1/logs.grpc.pb.h"
#include "proto/convert/time.h"

namespace dp::worker {
namespace {

// The size of a request; the coordinator accepts four times as much.
constexpr size_t kBatchBytesMax = 1 << 20;
// One stream's share of a request, so that a rank that floods does not delay the others.
constexpr size_t kChunkBytesMax = 128 << 10;
constexpr size_t kRankBytesMax = std::size(kLogStreams) * kChunkBytesMax;
// How many ranks' announcements and ends fit into one request.
constexpr int kRanksToldMax = 512;
constexpr absl::Duration kAppendDeadline = absl::Seconds(10);
// Four orders a rank for a thousand slots, and one to drop each left-over spool; more is a bug.
constexpr size_t kShipOrdersMax = 4096 + kLeftOversMax;
// The coordinator removes logs of ended jobs after a refusal, so one refusal does not mean that it
// lacks room.
constexpr int kRefusalsBelieved = 3;

}  // namespace

LogShipper::LogShipper(client::Connection& connection, const Options& options, Sink sink)
    : connection_(connection),
      sink_(std::move(sink)),
      orders_(kShipOrdersMax),
      clock_(options.clock),
      watch_(options.spool_bytes_max, options.spool_disk, options.clock),
      backoff_(BackoffOptions{}, options.seed) {
  thread_ = std::jthread([this] { Loop(); });
  pthread_setname_np(thread_.native_handle(), "log_shipper");
}

LogShipper::~LogShipper() { orders_.Close(); }

void LogShipper::Use(const Session& session) { Push(UseOrder{session}); }
void LogShipper::Follow(const RankKey& key, const LogSpool& spool) {
  follows_[key] = ++last_follow_;
  Push(FollowOrder{{{key, spool}}, last_follow_});
}
void LogShipper::FollowLeftOvers(std::map<RankKey, LogSpool> spools) {
  ++last_follow_;
  for (const auto& [key, spool] : spools) follows_[key] = last_follow_;
  Push(FollowOrder{std::move(spools), last_follow_, /*left_over=*/true});
}
void LogShipper::Finish(const RankKey& key) { Push(FinishOrder{key}); }
void LogShipper::Drop(const RankKey& key) {
  follows_.erase(key);
  Push(DropOrder{key});
}
bool LogShipper::Follows(const LogsNews& news) const {
  const auto known = follows_.find(news.key);
  return known != follows_.end() && known->second == news.follow;
}

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

void LogShipper::CarryOut(const UseOrder& order) {
  session_ = order.session;
  for (auto& [key, logs] : ranks_) logs.announced = false;
}

void LogShipper::CarryOut(const FollowOrder& order) {
  for (const auto& [key, spool] : order.spools) Follow(key, spool, order);
}

void LogShipper::Follow(const RankKey& key, const LogSpool& spool, const FollowOrder& order) {
  RankLogs logs{.follow = order.number,
                .job_submitted_at = spool.job_submitted_at(),
                .place = spool.place(),
                .finished = order.left_over};
  const auto mask = std::make_shared<const SecretMask>(spool.Mask());
  for (size_t i = 0; i < logs.files.size(); ++i) {
    logs.files[i] = std::make_shared<SpoolFile>(spool.path(kLogStreams[i]), order.left_over,
                                                SpoolFile::PunchHole, mask);
    watch_.Add(logs.files[i]);
  }
  const bool added = ranks_.emplace(key, std::move(logs)).second;
  DP_CHECK(added);
}

void LogShipper::CarryOut(const FinishOrder& order) {
  const auto logs = ranks_.find(order.key);
  if (logs == ranks_.end()) return;
  logs->second.finished = true;
  for (const auto& file : logs->second.files) file->End(clock_.Now());
}

void LogShipper::CarryOut(const DropOrder& order) {
  const auto logs = ranks_.find(order.key);
  if (logs == ranks_.end()) return;
  for (const auto& file : logs->second.files) watch_.Remove(file);
  ranks_.erase(logs);
}

void LogShipper::ShipOnce() {
  const v1::AppendLogsRequest batch = NextBatch();
  more_ = batch.chunks_size() > 0 || batch.ranks_size() > 0;
  if (!more_) return;
  const auto response = connection_.Call(&v1::Logs::Stub::Append, batch, kAppendDeadline);
  if (!absl::IsResourceExhausted(response.status())) refusals_ = 0;
  if (response.ok()) {
    TakeAcknowledgement(batch, *response);
    return;
  }
  trouble_.Failed(response.status());
  // The coordinator does not know the job, or the job does not have the rank: nobody wants these
  // logs. Any other rejection concerns the session, which the lease finds out.
  const bool unwanted =
      absl::IsNotFound(response.status()) || absl::IsInvalidArgument(response.status());
  if (unwanted) GiveUp(batch);
  if (absl::IsResourceExhausted(response.status())) TakeRefusal(batch);
  pause_ = backoff_.Next();
}

// Takes ranks in a circle from the cursor on, as far as one job goes. The next batch is the next
// job's, however much this job still has to send.
v1::AppendLogsRequest LogShipper::NextBatch() {
  v1::AppendLogsRequest batch;
  batch.set_worker_id(session_->worker_id);
  batch.set_incarnation(session_->incarnation.value());
  auto rank = ranks_.lower_bound(cursor_);
  for (size_t visited = 0; visited < ranks_.size(); ++visited) {
    if (rank == ranks_.end()) rank = ranks_.begin();
    cursor_ = rank->first;
    const bool full = batch.ByteSizeLong() + kRankBytesMax > kBatchBytesMax ||
                      batch.ranks_size() >= kRanksToldMax;
    if (full || !SameJob(batch, cursor_, rank->second)) break;
    if (!rank->second.given_up) {
      AddRank(rank->first, rank->second, &batch);
      AddChunks(rank->first, rank->second, &batch);
    }
    ++rank;
  }
  return batch;
}

bool LogShipper::RankLogs::stored() const {
  return finished &&
         std::all_of(files.begin(), files.end(), [](const auto& file) { return file->sent(); });
}

void LogShipper::AddRank(const RankKey& key, const RankLogs& logs, v1::AppendLogsRequest* batch) {
  const bool whole = logs.stored() && !logs.whole_told;
  if ((logs.announced || logs.whole_told) && !whole) return;
  Belongs(key, logs, batch);
  v1::RankOutput* rank = batch->add_ranks();
  rank->set_generation(key.generation.value());
  rank->set_rank(key.rank);
  rank->set_spool(logs.place);
  rank->set_whole(whole);
}

void LogShipper::Belongs(const RankKey& key, const RankLogs& logs, v1::AppendLogsRequest* batch) {
  batch->set_job(key.job.value());
  if (logs.job_submitted_at) *batch->mutable_job_submitted_at() = ToProto(*logs.job_submitted_at);
}

void LogShipper::AddChunks(const RankKey& key, const RankLogs& logs, v1::AppendLogsRequest* batch) {
  for (size_t i = 0; i < logs.files.size(); ++i) {
    logs.files[i]->Look(clock_.Now());
    SpoolFile::Piece piece = logs.files[i]->Next(kChunkBytesMax, logs.finished);
    if (piece.empty()) continue;
    Belongs(key, logs, batch);
    v1::LogChunk* chunk = batch->add_chunks();
    chunk->set_generation(key.generation.value());
    chunk->set_rank(key.rank);
    chunk->set_stream(kLogStreams[i]);
    chunk->set_offset(piece.offset);
    chunk->set_data(std::move(piece.data));
    chunk->set_cut_bytes(piece.cut_bytes);
    if (piece.emptied) chunk->set_cut_reason(v1::LOG_CUT_REASON_EMPTIED);
    for (const LogTime& found : piece.times) {
      v1::LogTime* time = chunk->add_times();
      time->set_offset(found.offset);
      *time->mutable_time() = ToProto(found.time);
    }
  }
}

bool LogShipper::SameJob(const v1::AppendLogsRequest& batch, const RankKey& key,
                         const RankLogs& logs) {
  if (batch.chunks_size() == 0 && batch.ranks_size() == 0) return true;
  if (batch.job() != key.job.value()) return false;
  const bool known = batch.has_job_submitted_at();
  return known == logs.job_submitted_at.has_value() &&
         (!known || FromProto(batch.job_submitted_at()) == *logs.job_submitted_at);
}

// The coordinator says what is stored, which may go backwards: the file still has it.
void LogShipper::TakeAcknowledgement(const v1::AppendLogsRequest& batch,
                                     const v1::AppendLogsResponse& response) {
  bool moved = TakeTold(batch);
  for (const v1::LogPosition& position : response.acknowledged()) {
    const RankKey key{JobId(batch.job()), Generation(position.generation()), position.rank()};
    const auto logs = ranks_.find(key);
    const auto stream =
        std::find(std::begin(kLogStreams), std::end(kLogStreams), position.stream());
    if (logs == ranks_.end() || stream == std::end(kLogStreams)) continue;
    SpoolFile& file = *logs->second.files[static_cast<size_t>(stream - std::begin(kLogStreams))];
    if (file.use().acknowledged == position.offset()) continue;
    file.Acknowledge(position.offset());
    moved = true;
    sink_({key, logs->second.follow});
  }
  if (moved) {
    backoff_.Reset();
    trouble_.Worked();
  } else {
    trouble_.Failed(absl::AbortedError("the coordinator stored nothing of a batch"));
    pause_ = backoff_.Next();
  }
}

bool LogShipper::TakeTold(const v1::AppendLogsRequest& batch) {
  for (const v1::RankOutput& rank : batch.ranks()) {
    const auto logs = ranks_.find({JobId(batch.job()), Generation(rank.generation()), rank.rank()});
    if (logs == ranks_.end()) continue;
    logs->second.announced = true;
    logs->second.whole_told = logs->second.whole_told || rank.whole();
  }
  return batch.ranks_size() > 0;
}

void LogShipper::GiveUp(const v1::AppendLogsRequest& batch) {
  for (auto& [key, logs] : ranks_) {
    if (SameJob(batch, key, logs)) logs.given_up = true;
  }
}

void LogShipper::TakeRefusal(const v1::AppendLogsRequest& batch) {
  if (++refusals_ < kRefusalsBelieved) return;
  std::set<RankKey> ranks;
  for (const v1::LogChunk& chunk : batch.chunks()) {
    ranks.insert({JobId(batch.job()), Generation(chunk.generation()), chunk.rank()});
  }
  for (const v1::RankOutput& rank : batch.ranks()) {
    ranks.insert({JobId(batch.job()), Generation(rank.generation()), rank.rank()});
  }
  for (const RankKey& key : ranks) {
    const auto logs = ranks_.find(key);
    if (logs != ranks_.end() && logs->second.finished)
      sink_({key, logs->second.follow, /*all=*/false, /*refused=*/true});
  }
}

void LogShipper::TellFinished() {
  for (auto& [key, logs] : ranks_) {
    if (!logs.finished || logs.reported) continue;
    if (!logs.whole_told && !logs.given_up) continue;
    logs.reported = true;
    sink_({key, logs.follow, /*all=*/true});
  }
}

}  // namespace dp::worker
