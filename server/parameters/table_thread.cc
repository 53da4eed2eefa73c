#include "server/parameters/table_thread.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/checksum/crc32c.h"
#include "base/limits.h"
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

absl::string_view BytesOf(absl::Span<const float> floats) {
  return {reinterpret_cast<const char*>(floats.data()), floats.size() * sizeof(float)};
}

// The values of all parameters, without the gaps between them, chunk by chunk.
class PackedValues {
 public:
  PackedValues(const engine::ParameterLayout& layout, absl::Span<const float> values)
      : layout_(layout), values_(values) {}

  // Fills `chunk`; empty at the end.
  void Next(std::string& chunk) {
    chunk.clear();
    while (chunk.size() < kParameterChunkBytes && at_ < layout_.parameters.size()) {
      const engine::Parameter& parameter = layout_.parameters[at_];
      const absl::string_view rest = BytesOf(values_.subspan(static_cast<size_t>(parameter.offset),
                                                             static_cast<size_t>(parameter.size)))
                                         .substr(offset_);
      const absl::string_view part = rest.substr(0, kParameterChunkBytes - chunk.size());
      chunk.append(part.data(), part.size());
      offset_ += part.size();
      if (part.size() < rest.size()) continue;
      ++at_;
      offset_ = 0;
    }
  }

 private:
  const engine::ParameterLayout& layout_;
  const absl::Span<const float> values_;
  size_t at_ = 0;      // the parameter
  size_t offset_ = 0;  // bytes within it
};

// The reverse: writes chunks to where the parameters lie.
class UnpackedValues {
 public:
  UnpackedValues(const engine::ParameterLayout& layout, absl::Span<float> values)
      : layout_(layout), values_(values) {}

  void Add(absl::string_view chunk) {
    while (!chunk.empty() && at_ < layout_.parameters.size()) {
      const engine::Parameter& parameter = layout_.parameters[at_];
      const size_t bytes = static_cast<size_t>(parameter.size) * sizeof(float);
      const absl::string_view part = chunk.substr(0, bytes - offset_);
      char* const place = reinterpret_cast<char*>(values_.data() + parameter.offset);
      std::memcpy(place + offset_, part.data(), part.size());
      chunk.remove_prefix(part.size());
      offset_ += part.size();
      if (offset_ < bytes) return;
      ++at_;
      offset_ = 0;
    }
  }

 private:
  const engine::ParameterLayout& layout_;
  const absl::Span<float> values_;
  size_t at_ = 0;
  size_t offset_ = 0;
};

v1::ParameterVersion DescriptionOf(const engine::ParameterLayout& layout) {
  v1::ParameterVersion version;
  for (const engine::Parameter& parameter : layout.parameters) {
    v1::ParameterTensor* const tensor = version.add_tensors();
    tensor->set_name(parameter.name);
    tensor->set_type("F32");
    tensor->mutable_shape()->Assign(parameter.shape.begin(), parameter.shape.end());
    tensor->set_bytes(static_cast<uint64_t>(parameter.size) * sizeof(float));
  }
  return version;
}

}  // namespace

struct TableThread::Writing {
  JobId job;
  Generation generation;
  v1::TableSettings settings;
  engine::ParameterLayout layout;
  TableProgress progress;
  Values values;
  std::vector<std::string> names;
  std::vector<std::vector<float>> arrays;
};

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
    for (Item& item : items) std::visit([this](auto& each) { Take(each); }, item);
    const absl::Time now = clock_.Now();
    AnswerPublishes();
    PublishIfDue(now);
    AnswerPulls(now);
  }
  const bool dirty = table_ != nullptr && table_->progress().steps > table_->durable().steps;
  if (publish_at_end_ && dirty) {
    snapshot_ = Snapshot();
    const Writing writing = {job_,
                             generation_,
                             settings_,
                             options_->layout,
                             table_->progress(),
                             snapshot_,
                             ArrayNames(options_->optimizer),
                             table_->arrays()};
    const absl::Status written = Write(store_, writing).status();
    if (!written.ok()) {
      Log(Severity::kError, "table_not_published",
          {{"job", job_.value()}, {"error", std::string(written.message())}});
    }
  }
  AnswerAllEnded();
  Free();
}

absl::Time TableThread::NextAt() const {
  absl::Time next = absl::InfiniteFuture();
  for (const PullItem& pull : pulls_) next = std::min(next, pull.deadline);
  if (wants_publish() && !writing_) next = std::min(next, write_again_at_);
  return next;
}

void TableThread::Take(OpenItem& item) { item.done(OpenFor(item)); }
void TableThread::Take(BeginItem& item) { item.done(PlaceFor(item)); }
void TableThread::Take(PushItem& item) { item.done(Accept(item)); }

absl::StatusOr<TableThread::Opened> TableThread::OpenFor(const OpenItem& item) {
  if (item.from.generation != generation_ || !options_) {
    DP_RETURN_IF_ERROR(BeginGeneration(item));
  } else if (settings_.SerializeAsString() != item.settings.SerializeAsString()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job_.ToString(), ": rank ", item.from.rank,
                     " has other settings than the rank that opened the table"));
  }
  if (item.from.rank < 0 || item.from.rank >= options_->ranks) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", item.from.rank, " is not below ",
                                                   options_->ranks, ", the ranks of the table"));
  }
  Opened opened;
  opened.initial = table_ == nullptr;
  if (table_ == nullptr) return opened;
  opened.next = table_->Next(item.from.rank);
  opened.state = ToProto(table_->progress(), table_->durable());
  return opened;
}

absl::Status TableThread::BeginGeneration(const OpenItem& item) {
  if (item.from.generation < generation_) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job_.ToString(), ": generation ", item.from.generation.ToString(),
                     " is stale, current is ", generation_.ToString()));
  }
  DP_ASSIGN_OR_RETURN(TableOptions options, OptionsOf(item.settings));
  if (options_) DP_RETURN_IF_ERROR(CheckSame(settings_, item.settings));
  std::optional<GradientTable::State> state;
  if (table_ != nullptr) {
    state = {.progress = ForRanks(table_->progress(), options.ranks),
             .durable = ForRanks(table_->durable(), options.ranks),
             .values = {table_->values().begin(), table_->values().end()},
             .arrays = table_->arrays()};
  }
  table_.reset();
  share_ = {};
  options_.reset();
  DP_ASSIGN_OR_RETURN(share_, memory_.Take(job_, MemoryOf(options)));
  options_ = std::move(options);
  settings_ = item.settings;
  generation_ = item.from.generation;
  places_.assign(static_cast<size_t>(options_->ranks), {});
  const absl::Status begun = state ? Make(*std::move(state)) : Load();
  if (!begun.ok()) Free();
  return begun;
}

absl::Status TableThread::Make(GradientTable::State state) {
  table_ = std::make_unique<GradientTable>(*options_, std::move(state));
  snapshot_.reset();
  return absl::OkStatus();
}

// The state that was published last, if there is one.
absl::Status TableThread::Load() {
  const SetKey key = {.job = job_};
  const absl::StatusOr<uint64_t> version = store_.LatestTable(key);
  if (absl::IsNotFound(version.status())) return absl::OkStatus();
  DP_RETURN_IF_ERROR(version.status());
  DP_ASSIGN_OR_RETURN(const VersionReader reader, store_.Open(key, *version));
  const parameters::StoredTable& stored = reader.description().table();
  DP_RETURN_IF_ERROR(CheckSame(stored.settings(), settings_));
  GradientTable::State state = {.progress = ProgressOf(stored.state())};
  state.progress.pushed = {stored.pushed().begin(), stored.pushed().end()};
  state.progress = ForRanks(std::move(state.progress), options_->ranks);
  state.durable = state.progress;
  state.values.resize(static_cast<size_t>(options_->layout.size));
  UnpackedValues unpacked(options_->layout, absl::MakeSpan(state.values));
  for (int i = 0; i < reader.chunks(); ++i) {
    DP_ASSIGN_OR_RETURN(const std::string chunk, reader.Chunk(i, /*check=*/true));
    unpacked.Add(chunk);
  }
  std::vector<float> arrays(state.values.size() * static_cast<size_t>(stored.arrays_size()));
  DP_RETURN_IF_ERROR(reader.ReadArrays(
      absl::MakeSpan(reinterpret_cast<char*>(arrays.data()), arrays.size() * sizeof(float))));
  for (size_t i = 0; i < static_cast<size_t>(stored.arrays_size()); ++i) {
    const auto begin = arrays.begin() + static_cast<std::ptrdiff_t>(i * state.values.size());
    state.arrays.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(state.values.size()));
  }
  published_ = reader.description().version();
  published_->clear_tensors();
  return Make(std::move(state));
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
  if (places_[rank].lock() != nullptr) {
    return absl::UnavailableError(absl::StrCat("job ", job_.ToString(),
                                               ": another gradient of rank ", item.from.rank,
                                               " is on its way; try again later"));
  }
  place.held = std::make_shared<int>();
  places_[rank] = place.held;
  return place;
}

absl::StatusOr<uint64_t> TableThread::Accept(PushItem& item) {
  DP_RETURN_IF_ERROR(CheckOpen(item.from));
  if (item.number == 0) {
    if (table_ == nullptr) {
      DP_RETURN_IF_ERROR(Make({.progress = {.pushed = std::vector<uint64_t>(places_.size())},
                               .values = std::move(item.data)}));
    }
    return 1;
  }
  if (table_ == nullptr) return absl::FailedPreconditionError("the table has no values yet");
  if (table_->Judge(item.from.rank, item.number) == GradientTable::Verdict::kTake) {
    const int64_t before = table_->progress().steps;
    table_->Push(item.from.rank, std::move(item.data), item.note);
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
  if (table_ != nullptr && table_->MayPull(pull.from.rank, pull.number)) {
    return Answer(Pulled{.state = ToProto(table_->progress(), table_->durable()),
                         .values = pull.without_values ? nullptr : Snapshot()});
  }
  const std::vector<int> missing =
      table_ == nullptr ? std::vector<int>{0} : table_->MissingFor(pull.from.rank, pull.number);
  if (missing.empty() && !write_failed_.ok()) return Answer(write_failed_);
  if (now < pull.deadline) return std::nullopt;
  if (missing.empty()) {
    return Answer(
        absl::UnavailableError(absl::StrCat(job, "the published state lags behind; try again")));
  }
  return Answer(Pulled{.missing = missing});
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

void TableThread::BeginPublish() {
  const auto writing = std::make_shared<const Writing>(
      Writing{job_, generation_, settings_, options_->layout, table_->BeginPublish(), Snapshot(),
              ArrayNames(options_->optimizer), table_->arrays()});
  writing_ = true;
  const absl::Status queued = tasks_.Submit([&store = store_, queue = queue_, writing] {
    Item item = PublishedItem{Write(store, *writing)};
    (void)queue->TryPush(item);  // a closed table needs no news
  });
  if (queued.ok()) return;
  PublishedItem failed{queued};
  Take(failed);
}

absl::StatusOr<v1::ParameterVersion> TableThread::Write(ParameterStore& store,
                                                        const Writing& writing) {
  const SetKey key = {.job = writing.job};
  v1::ParameterVersion description = DescriptionOf(writing.layout);
  description.set_step(writing.progress.steps);
  description.set_generation(writing.generation.value());
  uint64_t array_bytes = 0;
  for (const auto& array : writing.arrays) array_bytes += array.size() * sizeof(float);
  const std::string request = absl::StrCat("table-", writing.progress.steps);
  auto push = store.Begin(key, description, request, array_bytes);
  if (absl::IsAlreadyExists(push.status())) return *store.FindPushed(key, request);
  DP_RETURN_IF_ERROR(push.status());
  PackedValues packed(writing.layout, *writing.values);
  std::string chunk;
  uint32_t crc = 0;
  for (packed.Next(chunk); !chunk.empty(); packed.Next(chunk)) {
    crc = ExtendCrc32c(crc, chunk);
    DP_RETURN_IF_ERROR((*push)->Append(chunk, crc));
  }
  for (const auto& array : writing.arrays) {
    DP_RETURN_IF_ERROR((*push)->AppendArrays(BytesOf(array)));
  }
  parameters::StoredTable table;
  *table.mutable_settings() = writing.settings;
  *table.mutable_state() = ToProto(writing.progress, writing.progress);
  table.mutable_pushed()->Assign(writing.progress.pushed.begin(), writing.progress.pushed.end());
  table.mutable_arrays()->Assign(writing.names.begin(), writing.names.end());
  return (*push)->Finish(&table);
}

void TableThread::Take(PublishedItem& item) {
  writing_ = false;
  write_failed_ = item.version.status();
  write_again_at_ = item.version.ok() ? absl::InfinitePast() : clock_.Now() + kWriteAgain;
  if (table_ != nullptr) table_->EndPublish(item.version.ok());
  if (item.version.ok()) {
    published_ = *std::move(item.version);
    return;
  }
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
  publishes_.push_back(std::move(item));
}

void TableThread::AnswerPublishes() {
  if (table_ == nullptr) return;
  bool close = false;
  std::vector<PublishItem> waiting;
  for (PublishItem& each : publishes_) {
    if (table_->durable().steps >= each.steps && published_) {
      close = close || each.close;
      each.done(*published_);
    } else if (!write_failed_.ok()) {
      each.done(write_failed_);
    } else {
      waiting.push_back(std::move(each));
    }
  }
  publishes_ = std::move(waiting);
  if (close) Free();
}

void TableThread::Free() {
  for (PublishItem& each : publishes_) {
    each.done(absl::UnavailableError("the job's table has been closed"));
  }
  publishes_.clear();
  table_.reset();
  options_.reset();
  snapshot_.reset();
  places_.clear();
  share_ = {};
}

void TableThread::AnswerAllEnded() {
  const absl::Status ended = absl::UnavailableError("the job's table has been closed");
  for (PullItem& pull : pulls_) pull.done(ended);
  pulls_.clear();
}

}  // namespace dp::server
