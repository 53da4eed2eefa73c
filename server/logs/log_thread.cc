#include "server/logs/log_thread.h"

#include <pthread.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/program/log.h"
#include "base/status.h"
#include "server/driver/busy.h"

namespace dp::server {
namespace {

// All calls that may be parked as readers (Waiters::Capacity::watches) can be queued at once: a new
// line wakes all followers of a job.
constexpr size_t kQueueCapacity = 32'768;

// Bytes of appends that wait for the disk: 16 full requests, more than one sync takes in. Includes
// the times of lines and the names in news of ranks.
constexpr size_t kQueuedBytesMax = size_t{64} << 20;

size_t BytesOf(const LogBatch& batch) {
  size_t bytes = 0;
  for (const LogChunk& chunk : batch.chunks) {
    bytes += chunk.data.size() + chunk.times.size() * sizeof(LogTime);
  }
  for (const RankOutput& rank : batch.ranks) {
    bytes += rank.worker.size() + rank.host.size() + rank.spool.size();
  }
  return bytes;
}

void Acknowledge(const LogPosition& end, std::vector<LogPosition>& acknowledged) {
  const auto known = std::find_if(acknowledged.begin(), acknowledged.end(),
                                  [&](auto& position) { return position.stream == end.stream; });
  if (known == acknowledged.end()) {
    acknowledged.push_back(end);
  } else {
    *known = end;
  }
}

}  // namespace

LogThread::LogThread(LogStore store, std::function<void(absl::Status)> on_failure)
    : store_(std::move(store)),
      on_failure_(std::move(on_failure)),
      queue_(kQueueCapacity),
      thread_([this] { Run(); }) {}

LogThread::~LogThread() { Stop(); }

absl::Status LogThread::Append(JobId job, LogBatch batch, AppendAnswer answer) {
  const size_t bytes = BytesOf(batch);
  const size_t queued = queued_bytes_.fetch_add(bytes);
  absl::Status status = queued + bytes > kQueuedBytesMax
                            ? Busy(absl::StrCat(queued >> 20, " MiB of log lines"))
                            : Push(AppendCall{job, std::move(batch), std::move(answer), bytes});
  if (!status.ok()) queued_bytes_ -= bytes;
  return status;
}

absl::Status LogThread::Read(JobId job, LogQuery query, ReadAnswer answer) {
  return PushBehind(ReadCall{job, std::move(query), std::move(answer)});
}

absl::Status LogThread::Drop(std::vector<JobId> jobs) {
  return PushBehind(DropCall{std::move(jobs)});
}

absl::Status LogThread::MakeRoom(std::vector<JobId> ended) {
  return PushBehind(RoomCall{std::move(ended)});
}

absl::Status LogThread::room() const {
  MutexLock lock(mu_);
  return room_;
}

void LogThread::Stop() {
  queue_.Close();
  if (thread_.joinable()) thread_.join();
}

absl::Status LogThread::Push(Call call) {
  if (queue_.TryPush(call)) return absl::OkStatus();
  if (queue_.closed()) return absl::UnavailableError("the coordinator is stopping");
  return Busy(absl::StrCat(kQueueCapacity, " requests for logs"));
}

absl::Status LogThread::PushBehind(Behind call) {
  absl::Status status = behind_count_++ < kQueueCapacity
                            ? Push(std::move(call))
                            : Busy(absl::StrCat(kQueueCapacity, " requests for logs"));
  if (!status.ok()) --behind_count_;
  return status;
}

void LogThread::Run() {
  pthread_setname_np(pthread_self(), "dp-logs");
  store_.Measure();
  while (true) {
    std::vector<Call> calls =
        queue_.DrainFor(behind_.empty() ? absl::InfiniteDuration() : absl::ZeroDuration());
    if (calls.empty() && behind_.empty() && queue_.closed()) return;
    Serve(calls);
  }
}

void LogThread::Serve(std::vector<Call>& calls) {
  std::vector<std::pair<AppendCall*, absl::StatusOr<Appended>>> appends;
  for (Call& call : calls) {
    if (auto* append = std::get_if<AppendCall>(&call)) appends.emplace_back(append, Apply(*append));
  }
  if (failure_.ok() && !appends.empty()) {
    failure_ = store_.Sync();
    if (!failure_.ok()) on_failure_(failure_);
  }
  for (auto& [call, appended] : appends) {
    queued_bytes_ -= call->bytes;
    call->answer(failure_.ok() ? std::move(appended) : failure_);
  }
  for (Call& call : calls) {
    if (auto* behind = std::get_if<Behind>(&call)) behind_.push_back(std::move(*behind));
  }
  for (size_t served = 0; served < kReadsPerTurn && !behind_.empty(); ++served) {
    const Behind call = std::move(behind_.front());
    behind_.pop_front();
    --behind_count_;
    std::visit([this](const auto& each) { CarryOut(each); }, call);
  }
}

void LogThread::CarryOut(const ReadCall& call) { call.answer(ReadPage(call)); }

absl::StatusOr<LogThread::Page> LogThread::ReadPage(const ReadCall& call) {
  const uint64_t version = store_.version(call.job);
  if (Page known = recent_.Find(call.job, call.query, version)) return known;
  DP_ASSIGN_OR_RETURN(LogPage page, store_.Read(call.job, call.query));
  return recent_.Keep(call.job, call.query, std::move(page));
}

void LogThread::CarryOut(const DropCall& call) {
  for (const JobId job : call.jobs) {
    const absl::Status dropped = store_.Drop(job);
    if (dropped.ok()) continue;
    Log(Severity::kWarning, "logs_not_dropped",
        {{"job", job.value()}, {"error", dropped.ToString()}});
  }
}

void LogThread::CarryOut(const RoomCall& call) {
  const char* const reason = store_.over_limit() ? "bytes_max" : "disk_reserve";
  const auto removed = store_.MakeRoom(call.ended);
  if (!removed.ok()) {
    Log(Severity::kError, "logs_not_removed", {{"error", removed.status().ToString()}});
    return;
  }
  for (const JobId job : *removed) {
    Log(Severity::kWarning, "logs_removed", {{"job", job.value()}, {"reason", reason}});
  }
}

void LogThread::NoteRoom(const absl::Status& room) {
  if (absl::IsResourceExhausted(room) && (store_.over_limit() || store_.disk_low())) {
    room_wanted_ = true;
  }
  const bool had_room = TakeRoom(room).ok();
  if (had_room && !room.ok()) {
    Log(Severity::kError, "logs_not_stored", {{"error", std::string(room.message())}});
  } else if (!had_room && room.ok()) {
    Log(Severity::kInfo, "logs_stored_again");
  }
}

absl::Status LogThread::TakeRoom(const absl::Status& room) {
  MutexLock lock(mu_);
  return std::exchange(room_, room);
}

absl::Status LogThread::Note(JobId job, const LogBatch& batch) {
  const absl::Status noted = store_.Note(job, batch.ranks);
  if (absl::IsResourceExhausted(noted)) NoteRoom(noted);
  // If there are chunks, they show whether there is room.
  if (noted.ok() && !batch.ranks.empty() && batch.chunks.empty()) NoteRoom(store_.CheckRoom());
  return noted;
}

absl::StatusOr<LogThread::Appended> LogThread::Apply(const AppendCall& call) {
  DP_RETURN_IF_ERROR(failure_);
  Appended appended;
  // First, so that the store knows whose output waits even if there is no room for the output.
  DP_RETURN_IF_ERROR(Note(call.job, call.batch));
  for (const LogChunk& chunk : call.batch.chunks) {
    const absl::StatusOr<LogPosition> end = store_.Append(call.job, chunk);
    if (end.ok() || absl::IsResourceExhausted(end.status())) NoteRoom(end.status());
    DP_RETURN_IF_ERROR(end.status());
    Acknowledge(*end, appended.acknowledged);
  }
  appended.version = store_.version(call.job);
  return appended;
}

}  // namespace dp::server
