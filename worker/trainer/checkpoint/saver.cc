#include "worker/trainer/checkpoint/saver.h"

#include <pthread.h>

#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "base/status.h"
#include "client/retry_loop.h"
#include "dp/v1/checkpoints.grpc.pb.h"
#include "worker/trainer/checkpoint/durable_file.h"
#include "worker/trainer/fault_point.h"

namespace dp::trainer {
namespace {

namespace fs = std::filesystem;

// A coordinator that is away for longer will not come back to this job.
constexpr absl::Duration kRegisterWithin = absl::Hours(24);

v1::Metric MetricOf(absl::string_view event, const v1::CheckpointManifest& manifest) {
  v1::Metric metric;
  metric.set_event(std::string(event));
  metric.set_epoch(manifest.epoch());
  metric.set_step(static_cast<int32_t>(manifest.step()));
  return metric;
}

v1::EarlyStopState Saved(const EarlyStopState& state) {
  v1::EarlyStopState saved;
  saved.set_metric(std::string(NameOf(state.metric)));
  if (state.best) saved.set_best(*state.best);
  saved.set_best_step(state.best_step);
  saved.set_without(state.without);
  saved.set_last_step(state.last_step);
  return saved;
}

// Local SGD keeps these arrays in host memory, so they need no snapshot.
void AddOuterState(const RankModel& model, TrainingState& state) {
  if (!model.outer) return;
  state.optimizer.push_back({.name = kOuterVelocity, .values = model.outer->velocity});
  const std::vector<engine::OptimizerState> own = model.optimizer->state();
  const std::vector<std::vector<float>>& peers = model.outer->of_peers;
  for (size_t i = 0; i < peers.size(); ++i) {
    const int rank = static_cast<int>(i / own.size()) + 1;
    state.optimizer.push_back(
        {.name = NameOfPeersArray(rank, own[i % own.size()].name), .values = peers[i]});
  }
}

}  // namespace

Saver::Saver(const Options& options, const Environment& environment, const RankModel& model,
             client::Connection& connection, const Clock& clock)
    : options_(options),
      environment_(environment),
      model_(model),
      layout_(model.layout),
      connection_(connection),
      clock_(clock),
      begun_at_(clock.Now()),
      thread_([this] {
        pthread_setname_np(pthread_self(), "checkpoint");
        Run();
      }) {}

Saver::~Saver() {
  pause_.Stop();
  MutexLock lock(mu_);
  stopped_ = true;
  changed_.NotifyAll();
}

absl::Status Saver::Prepare(const std::vector<v1::Checkpoint>& on_record) {
  DP_RETURN_IF_ERROR(CreateDirectoriesDurably(options_.directory));
  DP_RETURN_IF_ERROR(
      CheckWritable(absl::StrCat(options_.directory, "/", kProbeName), kProbeSuffix));
  RemoveOthers(on_record);
  KeepBest({on_record.begin(), on_record.end()});
  return absl::OkStatus();
}

void Saver::Resumed(const Position& position) {
  begun_step_ = position.step;
  begun_at_ = clock_.Now();
  MutexLock lock(mu_);
  recorded_step_ = position.step;
}

void Saver::StepDone(const Position& position) {
  if (WouldSave(position.step)) Begin(position);
}

bool Saver::WouldSave(int64_t step) { return Due(step) && !busy(); }

// Checkpoints are due at multiples of `every_steps`, so a late one does not shift the next.
bool Saver::Due(int64_t step) const {
  if (options_.every_steps > 0) {
    return step / options_.every_steps > begun_step_ / options_.every_steps;
  }
  return clock_.Now() - begun_at_ >= options_.every;
}

absl::Status Saver::SaveNow(const Position& position) {
  AwaitIdle();
  if (on_record(position)) return absl::OkStatus();
  Begin(position);
  AwaitIdle();
  MutexLock lock(mu_);
  return outcome_;
}

bool Saver::on_record(const Position& position) {
  MutexLock lock(mu_);
  return recorded_step_ == position.step;
}

void Saver::AwaitIdle() {
  MutexLock lock(mu_);
  while (pending_.has_value()) changed_.Wait(mu_);
}

bool Saver::busy() {
  MutexLock lock(mu_);
  return pending_.has_value() || fenced_;
}

void Saver::Evaluated(const Position& position, const Evaluation& evaluation) {
  if (!options_.best) return;
  const std::optional<double> value = ValueOf(*options_.best, evaluation);
  if (!value || !IsBetter(*value)) return;
  const std::string words = InWords(*options_.best, *value);
  if (!IsSaved(position)) return Begin(position, words);
  Pending mark{.state = {}, .snapshot = nullptr, .best = words, .mark = true};
  mark.state.manifest.set_step(position.step);
  mark.state.manifest.set_epoch(position.epoch);
  Enqueue(std::move(mark));
}

// A value of an earlier generation counts, too: it may have been of a step that is trained again.
bool Saver::IsBetter(double value) {
  MutexLock lock(mu_);
  const std::string words = !best_begun_.empty() ? best_begun_
                            : best_              ? best_->best()
                                                 : std::string();
  const auto best = words.empty() ? std::nullopt : ValueInWords(*options_.best, words);
  return !best || Improves(*options_.best, value, *best, /*delta=*/0);
}

bool Saver::IsSaved(const Position& position) {
  MutexLock lock(mu_);
  if (pending_) return pending_->state.manifest.step() == position.step;
  return written_.has_value() && recorded_step_ == position.step;
}

std::optional<v1::Checkpoint> Saver::best() {
  MutexLock lock(mu_);
  return best_;
}

void Saver::KeepBest(const google::protobuf::RepeatedPtrField<v1::Checkpoint>& on_record) {
  MutexLock lock(mu_);
  for (const v1::Checkpoint& one : on_record) {
    if (!one.best().empty()) best_ = one;
  }
}

void Saver::Enqueue(Pending pending) {
  MutexLock lock(mu_);
  if (fenced_) return;
  if (!pending.best.empty()) best_begun_ = pending.best;
  (pending_ ? next_ : pending_) = std::move(pending);
  changed_.NotifyAll();
}

// Saves nothing of a device that has failed; the train loop reports the failure.
void Saver::Begin(const Position& position, const std::string& best) {
  const absl::Time began = clock_.Now();
  absl::StatusOr<Pending> state = StateAt(position);
  begun_step_ = position.step;
  begun_at_ = clock_.Now();
  {
    MutexLock lock(mu_);
    if (!state.ok()) outcome_ = state.status();
    stall_seconds_ = absl::ToDoubleSeconds(begun_at_ - began);
  }
  if (!state.ok()) return;
  state->best = best;
  Enqueue(*std::move(state));
}

absl::StatusOr<Saver::Pending> Saver::StateAt(const Position& position) const {
  TrainingState state{.manifest = options_.manifest,
                      .values = {},
                      .optimizer = {},
                      .description = options_.description};
  state.manifest.set_step(position.step);
  state.manifest.set_epoch(position.epoch);
  state.manifest.set_step_of_epoch(position.step_of_epoch);
  state.manifest.set_epoch_loss_sum(position.epoch_loss_sum);
  state.manifest.set_epoch_samples(position.epoch_samples);
  state.manifest.set_sum_order(std::string(engine::NameOf(position.sum_order)));
  if (position.early_stop.last_step > 0) {
    *state.manifest.mutable_early_stop() = Saved(position.early_stop);
  }
  std::vector<absl::Span<const float>> arrays = {model_.values->span()};
  for (const engine::OptimizerState& array : model_.optimizer->state()) {
    arrays.push_back(array.values);
    state.optimizer.push_back({.name = std::string(array.name), .values = {}});
  }
  AddOuterState(model_, state);
  DP_ASSIGN_OR_RETURN(auto snapshot, model_.device->TakeSnapshot(arrays));
  return Pending{.state = std::move(state), .snapshot = std::move(snapshot)};
}

absl::Status Saver::ReadSnapshot(Pending& pending) {
  DP_ASSIGN_OR_RETURN(std::vector<std::vector<float>> arrays, pending.snapshot->Take());
  pending.snapshot.reset();
  DP_CHECK(arrays.size() <= 1 + pending.state.optimizer.size());
  pending.state.values = std::move(arrays[0]);
  for (size_t i = 1; i < arrays.size(); ++i) {
    pending.state.optimizer[i - 1].values = std::move(arrays[i]);
  }
  return absl::OkStatus();
}

std::vector<v1::Metric> Saver::TakeReports() {
  MutexLock lock(mu_);
  return std::exchange(reports_, {});
}

void Saver::Run() {
  while (true) {
    Pending* pending = nullptr;
    {
      MutexLock lock(mu_);
      while (!stopped_ && !pending_.has_value()) changed_.Wait(mu_);
      if (stopped_) return;
      pending = &*pending_;  // no other thread touches it until the reset below
    }
    Save(*pending);
    MutexLock lock(mu_);
    if (!next_) best_begun_.clear();  // it is on record now, or lost
    pending_ = std::exchange(next_, std::nullopt);
    changed_.NotifyAll();
  }
}

void Saver::Save(Pending& pending) {
  const absl::Time began = clock_.Now();
  const absl::Status read = pending.mark ? absl::OkStatus() : ReadSnapshot(pending);
  const absl::StatusOr<WrittenCheckpoint> written =
      read.ok() ? WriteAndRegister(pending) : absl::StatusOr<WrittenCheckpoint>(read);
  const v1::CheckpointManifest& manifest = pending.state.manifest;
  {
    MutexLock lock(mu_);
    outcome_ = written.status();
    if (written.ok()) {
      recorded_step_ = manifest.step();
      written_ = *written;
    }
  }
  if (written.ok()) return ReportSaved(pending, *written, began);
  v1::Metric metric = MetricOf("checkpoint_lost", manifest);
  metric.set_message(std::string(written.status().message()));
  Report(std::move(metric));
}

void Saver::ReportSaved(const Pending& pending, const WrittenCheckpoint& written,
                        absl::Time began) {
  if (!pending.mark) {
    v1::Metric metric = MetricOf("checkpoint", pending.state.manifest);
    metric.set_path(written.path);
    metric.set_bytes(written.bytes);
    metric.set_seconds(absl::ToDoubleSeconds(clock_.Now() - began));
    Report(std::move(metric));
  }
  if (pending.best.empty()) return;
  v1::Metric metric = MetricOf("best_checkpoint", pending.state.manifest);
  metric.set_path(written.path);
  metric.set_message(pending.best);
  Report(std::move(metric));
}

void Saver::Report(v1::Metric metric) {
  MutexLock lock(mu_);
  if (metric.event() == "checkpoint") metric.set_stall_seconds(stall_seconds_);
  reports_.push_back(std::move(metric));
}

absl::StatusOr<WrittenCheckpoint> Saver::Write(const TrainingState& state) const {
  const absl::StatusOr<WrittenCheckpoint> written =
      WriteCheckpoint(options_.directory, state, layout_);
  if (written.ok()) return written;
  return absl::Status(written.status().code(),
                      absl::StrCat("train.checkpoint.dir: ", written.status().message(),
                                   "; make room or writable what the host of rank 0 writes to: "
                                   "training goes on, and tries again when the next is due"));
}

absl::StatusOr<WrittenCheckpoint> Saver::Marked(const Pending& pending) {
  MutexLock lock(mu_);
  if (written_ && recorded_step_ == pending.state.manifest.step()) return *written_;
  return absl::NotFoundError("the best checkpoint was lost when its files were saved");
}

absl::StatusOr<WrittenCheckpoint> Saver::WriteAndRegister(const Pending& pending) {
  DP_ASSIGN_OR_RETURN(const WrittenCheckpoint written,
                      pending.mark ? Marked(pending) : Write(pending.state));
  ReachFaultPoint("register", pending.state.manifest.step());
  // The files stay after an error: if only the answer was lost, this checkpoint is the latest on
  // record. The next registration or generation removes checkpoints that are not on record.
  DP_RETURN_IF_ERROR(Register(pending, written));
  return written;
}

absl::Status Saver::Register(const Pending& pending, const WrittenCheckpoint& written) {
  v1::RegisterCheckpointRequest request;
  request.set_job(environment_.job.value());
  request.set_generation(environment_.generation.value());
  request.set_rank(environment_.rank);
  request.set_keep(options_.keep);
  request.mutable_checkpoint()->set_step(pending.state.manifest.step());
  request.mutable_checkpoint()->set_path(written.path);
  request.mutable_checkpoint()->set_sha256(written.sha256);
  request.mutable_checkpoint()->set_bytes(written.bytes);
  request.mutable_checkpoint()->set_best(pending.best);
  const absl::StatusOr<v1::RegisterCheckpointResponse> response =
      client::RetryLoop(client::RetryPolicy({.deadline = kRegisterWithin}, EntropySeed()), clock_,
                        pause_, [&](absl::Duration in) {
                          return connection_.Call(&v1::Checkpoints::Stub::Register, request, in);
                        });
  if (response.ok()) {
    RemoveOthers({response->checkpoints().begin(), response->checkpoints().end()});
    KeepBest(response->checkpoints());
    return absl::OkStatus();
  }
  if (absl::IsFailedPrecondition(response.status())) {
    MutexLock lock(mu_);
    fenced_ = true;
  }
  return response.status();
}

// Never touches later generations' checkpoints: this generation may be over without knowing it.
void Saver::RemoveOthers(const std::vector<v1::Checkpoint>& on_record) const {
  std::set<std::string> kept;
  for (const v1::Checkpoint& checkpoint : on_record) kept.insert(checkpoint.path());
  // Whatever cannot be listed or removed now is tried again next time.
  std::error_code list_error;
  std::error_code remove_error;
  fs::directory_iterator entry(options_.directory, list_error);
  for (; !list_error && entry != fs::directory_iterator(); entry.increment(list_error)) {
    const auto name = CheckpointName::Parse(entry->path().filename().string());
    if (!name || name->generation > environment_.generation.value()) continue;
    if (kept.count(entry->path().string()) == 0) fs::remove_all(entry->path(), remove_error);
  }
}

}  // namespace dp::trainer
