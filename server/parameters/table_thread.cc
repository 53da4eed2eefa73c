#include "server/parameters/table_thread.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/overloaded.h"
#include "base/program/log.h"
#include "base/status.h"
#include "server/driver/busy.h"
#include "server/parameters/table_settings.h"

namespace dp::server {
namespace {

// Each rank has a few calls at most, so this is more than there are streams.
constexpr size_t kQueueCapacity = 4'096;
// A disk that was full is tried again so often.
constexpr absl::Duration kWriteAgain = absl::Seconds(2);

absl::Status OfJob(JobId job, const absl::Status& status) {
  if (status.ok()) return status;
  return {status.code(), absl::StrCat("job ", job.ToString(), ": ", status.message())};
}

}  // namespace

bool TableThread::WrittenSlot::Begin() {
  MutexLock lock(mu_);
  begun_ = !dropped_;
  return begun_;
}

void TableThread::WrittenSlot::Put(Written written) {
  MutexLock lock(mu_);
  begun_ = false;
  written_ = std::move(written);
  there_.NotifyAll();
}

std::optional<TableThread::Written> TableThread::WrittenSlot::Take() {
  MutexLock lock(mu_);
  return std::exchange(written_, std::nullopt);
}

std::optional<TableThread::Written> TableThread::WrittenSlot::AwaitOrDrop() {
  MutexLock lock(mu_);
  while (begun_) there_.Wait(mu_);
  dropped_ = true;
  return std::exchange(written_, std::nullopt);
}

TableThread::TableThread(JobId job, ParameterStore& store, ParameterMemory& memory,
                         TaskThreads& tasks, const Clock& clock)
    : job_(job),
      store_(store),
      memory_(memory),
      tasks_(tasks),
      clock_(clock),
      queue_(std::make_shared<BoundedQueue<Item>>(kQueueCapacity)),
      thread_([this] { Run(); }) {}

TableThread::~TableThread() { Stop(/*publish=*/false); }

absl::Status TableThread::Open(From from, v1::TableSettings settings, Done<Opened> done) {
  return Submit(OpenItem{from, std::move(settings), std::move(done)});
}

absl::Status TableThread::Begin(From from, uint64_t number, Done<Place> done) {
  return Submit(BeginItem{from, number, std::move(done)});
}

absl::Status TableThread::Push(From from, uint64_t number, std::vector<float> data,
                               const GradientNote& note, Done<uint64_t> done) {
  return Submit(PushItem{from, number, std::move(data), note, std::move(done)});
}

absl::Status TableThread::Pull(From from, uint64_t number, absl::Duration timeout,
                               bool without_values, Done<Pulled> done) {
  return Submit(PullItem{from, number, clock_.Now() + timeout, without_values, std::move(done)});
}

absl::Status TableThread::Publish(From from, uint64_t number, bool close,
                                  Done<v1::ParameterVersion> done) {
  return Submit(PublishItem{from, number, close, std::move(done)});
}

absl::Status TableThread::Submit(Item item) {
  if (queue_->TryPush(item)) return absl::OkStatus();
  if (queue_->closed()) return absl::UnavailableError("the job's table has been closed");
  return Busy(absl::StrCat(kQueueCapacity, " calls for the table of job ", job_.ToString()));
}

void TableThread::Stop(bool publish) {
  if (publish) publish_at_end_ = true;
  queue_->Close();
  if (thread_.joinable()) thread_.join();
}

void TableThread::Run() {
  pthread_setname_np(pthread_self(),
                     absl::StrCat("dp-table-", job_.ToString()).substr(0, 15).c_str());
  while (true) {
    const absl::Duration wait = std::max(NextAt() - clock_.Now(), absl::ZeroDuration());
    std::vector<Item> items = queue_->DrainFor(wait);
    if (items.empty() && queue_->closed()) break;
    if (std::optional<Written> written = written_->Take()) EndPublish(*std::move(written));
    for (Item& item : items) std::visit([this](auto& each) { Take(each); }, item);
    const absl::Time now = clock_.Now();
    PublishIfDue(now);
    AnswerPublishes();
    AnswerOpens();
    AnswerPulls(now);
  }
  if (publish_at_end_) PublishLast();
  AnswerAllEnded();
  Free();
}

// The store gives versions their numbers as they end, so an older state must have ended before.
void TableThread::PublishLast() {
  if (std::optional<Written> written = written_->AwaitOrDrop()) EndPublish(*std::move(written));
  if (table_ == nullptr || table_->progress().steps <= table_->durable().steps) return;
  const absl::Status written = WriteTable(store_, Version()).status();
  if (written.ok()) return;
  Log(Severity::kError, "table_not_published",
      {{"job", job_.value()}, {"error", std::string(written.message())}});
}

absl::Time TableThread::NextAt() const {
  absl::Time next = absl::InfiniteFuture();
  for (const PullItem& pull : pulls_) next = std::min(next, pull.deadline);
  if (wants_publish() && !writing_) next = std::min(next, write_again_at_);
  return next;
}

void TableThread::Take(BeginItem& item) { item.done(PlaceFor(item)); }
void TableThread::Take(PushItem& item) { item.done(Accept(item)); }

void TableThread::Take(OpenItem& item) {
  if (const absl::Status status = CheckOpening(item); !status.ok()) return item.done(status);
  // A rank waits in one call.
  const auto former = std::find_if(opens_.begin(), opens_.end(), [&item](const OpenItem& each) {
    return each.from.rank == item.from.rank;
  });
  if (former != opens_.end()) {
    former->done(
        absl::UnavailableError(absl::StrCat("job ", job_.ToString(), ": rank ", item.from.rank,
                                            " has opened its table again meanwhile")));
    opens_.erase(former);
  }
  item.attempts = attempts_;
  write_again_at_ = absl::InfinitePast();
  opens_.push_back(std::move(item));
}

absl::Status TableThread::CheckOpening(const OpenItem& item) {
  if (item.from.generation != generation_ || !options_) {
    DP_RETURN_IF_ERROR(BeginGeneration(item));
  } else if (settings_.SerializeAsString() != item.settings.SerializeAsString()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job_.ToString(), ": rank ", item.from.rank,
                     " has other settings than the rank that opened the table"));
  }
  if (item.from.rank >= 0 && item.from.rank < options_->ranks) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("rank ", item.from.rank, " is not below ",
                                                 options_->ranks, ", the ranks of the table"));
}

void TableThread::AnswerOpens() {
  std::vector<OpenItem> waiting;
  for (OpenItem& open : opens_) {
    if (auto answer = AnswerTo(open)) {
      open.done(*std::move(answer));
    } else {
      waiting.push_back(std::move(open));
    }
  }
  opens_ = std::move(waiting);
}

std::optional<absl::StatusOr<TableThread::Opened>> TableThread::AnswerTo(const OpenItem& open) {
  using Answer = absl::StatusOr<Opened>;
  if (const absl::Status still = CheckOpen(open.from); !still.ok()) return Answer(still);
  if (table_ == nullptr) return Answer(Opened{.initial = true});
  if (table_->durable().steps < 0) {
    if (FailedSince(open.attempts)) return Answer(write_failed_);
    return std::nullopt;
  }
  return Answer(Opened{.next = table_->Next(open.from.rank),
                       .state = ToProto(table_->progress(), table_->durable())});
}

absl::Status TableThread::BeginGeneration(const OpenItem& item) {
  if (item.from.generation < generation_) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job_.ToString(), ": generation ", item.from.generation.ToString(),
                     " is stale, current is ", generation_.ToString()));
  }
  DP_ASSIGN_OR_RETURN(TableOptions options, OptionsOf(item.settings));
  if (options_) DP_RETURN_IF_ERROR(CheckSame(settings_, item.settings));
  DP_RETURN_IF_ERROR(memory_.Resize(job_, MemoryOf(options), share_));
  std::optional<GradientTable::State> state;
  if (table_ != nullptr) {
    state = {.progress = ForRanks(table_->progress(), options.ranks),
             .values = {table_->values().begin(), table_->values().end()},
             .arrays = table_->arrays()};
    // Otherwise this state becomes durable before anybody goes on from it.
    const bool durable = on_disk_ && ForRanks(*on_disk_, options.ranks) == state->progress;
    if (durable) state->durable = state->progress;
  }
  table_.reset();
  options_ = std::move(options);
  settings_ = item.settings;
  generation_ = item.from.generation;
  places_.assign(static_cast<size_t>(options_->ranks), {});
  lent_.assign(static_cast<size_t>(options_->ranks), {});
  write_failed_ = absl::OkStatus();
  if (state) {
    Make(*std::move(state));
    return absl::OkStatus();
  }
  const absl::Status loaded = Load();
  if (!loaded.ok()) Free();
  return loaded;
}

void TableThread::Make(GradientTable::State state) {
  table_ = std::make_unique<GradientTable>(*options_, std::move(state));
  snapshot_.reset();
}

// The state that was published last, if there is one.
absl::Status TableThread::Load() {
  DP_ASSIGN_OR_RETURN(std::optional<LoadedTable> loaded,
                      ReadLatestTable(store_, job_, settings_, *options_));
  if (!loaded) return absl::OkStatus();
  on_disk_ = loaded->state.progress;
  published_ = std::move(loaded->version);
  loaded->state.progress = ForRanks(*on_disk_, options_->ranks);
  loaded->state.durable = loaded->state.progress;
  Make(std::move(loaded->state));
  return absl::OkStatus();
}

absl::Status TableThread::CheckOpen(const From& from) const {
  const std::string job = absl::StrCat("job ", job_.ToString(), ": ");
  if (!options_) {
    return absl::FailedPreconditionError(
        absl::StrCat(job, "its table is not open; open it, and push again from there"));
  }
  if (from.generation != generation_) {
    const bool stale = from.generation < generation_;
    return absl::FailedPreconditionError(
        absl::StrCat(job, "generation ", from.generation.ToString(),
                     stale ? " is stale, current is " : " has not opened the table, which is of ",
                     generation_.ToString()));
  }
  if (from.rank >= 0 && from.rank < options_->ranks) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(job, "rank ", from.rank, " is not below ", options_->ranks));
}

absl::Status TableThread::CheckPushed(const From& from, uint64_t number) const {
  const uint64_t next = table_ == nullptr ? 1 : table_->Next(from.rank);
  if (number < next) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("job ", job_.ToString(), ": its table lacks gradient ", number, " of rank ",
                   from.rank, "; open it, and push again from gradient ", next));
}

absl::StatusOr<TableThread::Place> TableThread::PlaceFor(const BeginItem& item) {
  DP_RETURN_IF_ERROR(CheckOpen(item.from));
  const auto rank = static_cast<size_t>(item.from.rank);
  Place place;
  if (item.number == 0) {
    place.next = 1;
    place.take = table_ == nullptr;
    place.floats = static_cast<size_t>(options_->layout.size);
  } else {
    if (table_ == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat(
          "job ", job_.ToString(), ": its table has no values yet; rank 0 pushes them"));
    }
    place.next = table_->Next(item.from.rank);
    place.floats = static_cast<size_t>(table_->gradient_size());
    const GradientTable::Verdict verdict = table_->Judge(item.from.rank, item.number);
    if (verdict == GradientTable::Verdict::kAhead) {
      return absl::AbortedError(absl::StrCat("job ", job_.ToString(), ": gradient ", item.number,
                                             " of rank ", item.from.rank,
                                             " comes too early; pull the values first"));
    }
    place.take = verdict == GradientTable::Verdict::kTake;
  }
  if (!place.take) return place;
  // Each rank holds one gradient, and one copy of the values.
  for (const auto& [held, what] : {std::pair(!places_[rank].expired(), "gradients of rank "),
                                   std::pair(!lent_[rank].expired(), "values for rank ")}) {
    if (!held) continue;
    return absl::UnavailableError(absl::StrCat("job ", job_.ToString(), ": ", what, item.from.rank,
                                               " are on their way; try again later"));
  }
  place.held = std::make_shared<int>();
  places_[rank] = place.held;
  return place;
}

absl::StatusOr<uint64_t> TableThread::Accept(PushItem& item) {
  DP_RETURN_IF_ERROR(CheckOpen(item.from));
  if (item.number == 0) {
    if (table_ == nullptr) {
      Make({.progress = {.pushed = std::vector<uint64_t>(places_.size())},
            .values = std::move(item.data)});
    }
    return 1;
  }
  if (table_ == nullptr) return absl::FailedPreconditionError("the table has no values yet");
  if (table_->Judge(item.from.rank, item.number) == GradientTable::Verdict::kTake) {
    const int64_t before = table_->progress().steps;
    DP_RETURN_IF_ERROR(OfJob(job_, table_->Push(item.from.rank, std::move(item.data), item.note)));
    if (table_->progress().steps != before) snapshot_.reset();
  }
  return table_->Next(item.from.rank);
}

TableThread::Values TableThread::Snapshot() {
  if (snapshot_ == nullptr) {
    snapshot_ = std::make_shared<const std::vector<float>>(table_->values().begin(),
                                                           table_->values().end());
  }
  return snapshot_;
}

TableThread::Values TableThread::Lend(int rank) {
  const auto held = std::make_shared<const Values>(Snapshot());
  lent_[static_cast<size_t>(rank)] = held;
  return {held, held->get()};
}

void TableThread::AnswerPulls(absl::Time now) {
  std::vector<PullItem> waiting;
  for (PullItem& pull : pulls_) {
    if (auto answer = AnswerTo(pull, now)) {
      pull.done(*std::move(answer));
    } else {
      waiting.push_back(std::move(pull));
    }
  }
  pulls_ = std::move(waiting);
}

std::optional<absl::StatusOr<TableThread::Pulled>> TableThread::AnswerTo(const PullItem& pull,
                                                                         absl::Time now) {
  using Answer = absl::StatusOr<Pulled>;
  if (const absl::Status open = CheckOpen(pull.from); !open.ok()) return Answer(open);
  const absl::Status pushed = CheckPushed(pull.from, pull.number);
  if (!pushed.ok()) return Answer(pushed);
  const std::string job = absl::StrCat("job ", job_.ToString(), ": ");
  if (table_ != nullptr) {
    const absl::Status refused = table_->WhyRefused(pull.from.rank, pull.number);
    if (!refused.ok()) return Answer(OfJob(job_, refused));
  }
  if (table_ != nullptr && table_->MayPull(pull.from.rank, pull.number)) {
    const auto rank = static_cast<size_t>(pull.from.rank);
    if (!pull.without_values && (!lent_[rank].expired() || !places_[rank].expired())) {
      return Answer(
          absl::UnavailableError(absl::StrCat(job, "values or a gradient of rank ", pull.from.rank,
                                              " are on their way; try again later")));
    }
    return Answer(Pulled{.state = ToProto(table_->progress(), table_->durable()),
                         .values = pull.without_values ? nullptr : Lend(pull.from.rank)});
  }
  const std::vector<int> missing =
      table_ == nullptr ? std::vector<int>{0} : table_->MissingFor(pull.from.rank, pull.number);
  if (missing.empty() && !write_failed_.ok()) return Answer(write_failed_);
  if (now < pull.deadline) return std::nullopt;
  if (missing.empty()) {
    return Answer(
        absl::UnavailableError(absl::StrCat(job, "the published state lags behind; try again")));
  }
  Pulled late = {.missing = missing};
  for (const int rank : missing) {
    late.missing_at.push_back(
        table_ == nullptr ? 0 : table_->progress().pushed[static_cast<size_t>(rank)]);
  }
  return Answer(std::move(late));
}

bool TableThread::wants_publish() const {
  if (table_ == nullptr) return false;
  const int64_t durable = table_->durable().steps;
  return table_->PublishDue() ||
         std::any_of(publishes_.begin(), publishes_.end(),
                     [durable](const PublishItem& each) { return each.steps > durable; });
}

void TableThread::PublishIfDue(absl::Time now) {
  if (writing_ || !wants_publish() || now < write_again_at_) return;
  BeginPublish();
}

TableVersion TableThread::Version() {
  return {job_,       generation_,     settings_, *options_, table_->progress(),
          Snapshot(), table_->arrays()};
}

void TableThread::BeginPublish() {
  (void)table_->BeginPublish();  // the progress is the version's
  const auto version = std::make_shared<const TableVersion>(Version());
  writing_ = true;
  ++attempts_;
  const absl::Status queued =
      tasks_.Submit([&store = store_, queue = queue_, slot = written_, version] {
        if (!slot->Begin()) return;
        slot->Put({version->progress, WriteTable(store, *version)});
        Item item = WrittenItem{};
        (void)queue->TryPush(item);  // the thread looks into the slot behind all that is queued
      });
  if (!queued.ok()) EndPublish({version->progress, queued});
}

void TableThread::EndPublish(Written written) {
  writing_ = false;
  write_failed_ = written.version.status();
  write_again_at_ = written.version.ok() ? absl::InfinitePast() : clock_.Now() + kWriteAgain;
  if (table_ != nullptr) table_->EndPublish(written.version.ok());
  if (written.version.ok()) {
    published_ = *std::move(written.version);
    on_disk_ = std::move(written.progress);
    return;
  }
  failed_attempt_ = attempts_;
  Log(Severity::kError, "table_not_published",
      {{"job", job_.value()}, {"error", std::string(write_failed_.message())}});
}

void TableThread::Take(PublishItem& item) {
  if (const absl::Status open = CheckOpen(item.from); !open.ok()) return item.done(open);
  if (table_ == nullptr) {
    return item.done(absl::FailedPreconditionError("the table has no values yet"));
  }
  const absl::Status pushed = CheckPushed(item.from, item.number);
  if (!pushed.ok()) return item.done(pushed);
  item.steps = table_->progress().steps;
  item.attempts = attempts_;
  write_again_at_ = absl::InfinitePast();
  publishes_.push_back(std::move(item));
}

void TableThread::AnswerPublishes() {
  bool close = false;
  std::vector<PublishItem> waiting;
  for (PublishItem& each : publishes_) {
    if (const absl::Status open = CheckOpen(each.from); !open.ok()) {
      each.done(open);  // another generation goes on meanwhile
    } else if (table_->durable().steps >= each.steps && published_) {
      close = close || each.close;
      each.done(*published_);
    } else if (FailedSince(each.attempts)) {
      each.done(write_failed_);
    } else {
      waiting.push_back(std::move(each));
    }
  }
  publishes_ = std::move(waiting);
  if (close) Free();
}

void TableThread::Free() {
  const absl::Status closed = absl::UnavailableError("the job's table has been closed");
  for (PublishItem& each : publishes_) each.done(closed);
  for (OpenItem& each : opens_) each.done(closed);
  publishes_.clear();
  opens_.clear();
  table_.reset();
  options_.reset();
  snapshot_.reset();
  places_.clear();
  lent_.clear();
  share_ = {};
}

void TableThread::AnswerAllEnded() {
  const absl::Status ended = absl::UnavailableError("the job's table has been closed");
  for (PullItem& pull : pulls_) pull.done(ended);
  pulls_.clear();
}

}  // namespace dp::server
