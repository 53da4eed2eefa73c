#include "worker/trainer/program/rank_program.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/program/log.h"
#include "base/status.h"
#include "base/timeouts.h"
#include "client/connection.h"
#include "client/grpc_store.h"
#include "proto/weights/trained_model.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/ddp/reducer.h"
#include "worker/engine/ddp/replica.h"
#include "worker/trainer/checkpoint/best_checkpoint.h"
#include "worker/trainer/checkpoint/checkpoint_files.h"
#include "worker/trainer/checkpoint/checkpoint_fit.h"
#include "worker/trainer/checkpoint/initial_weights.h"
#include "worker/trainer/checkpoint/resume.h"
#include "worker/trainer/checkpoint/saver.h"
#include "worker/trainer/fault_point.h"
#include "worker/trainer/loop/first_step_report.h"
#include "worker/trainer/loop/handover_watch.h"
#include "worker/trainer/loop/table_link.h"
#include "worker/trainer/loop/train_loop.h"
#include "worker/trainer/model/model_description.h"
#include "worker/trainer/model/open_data.h"
#include "worker/trainer/model/rank_model.h"
#include "worker/trainer/model/training_fit.h"
#include "worker/trainer/program/open_group.h"
#include "worker/trainer/program/rank_cards.h"
#include "worker/trainer/program/rank_device.h"
#include "worker/trainer/program/rank_outputs.h"
#include "worker/trainer/program/rank_plugins.h"
#include "worker/trainer/program/shared_plans.h"
#include "worker/trainer/program/world_session.h"

namespace dp::trainer {
namespace {

// How long a starting rank waits for a coordinator that is away.
constexpr absl::Duration kJoinTimeout = absl::Minutes(5);
// How far apart the ranks of a failed collective notice the failure. Some wait for the stuck rank,
// others for a rank that waits.
constexpr absl::Duration kPeersSpeakWithin = absl::Seconds(2);
// How often ranks meet while rank 0 writes the results. A short detectWithin makes the meetings
// more frequent.
constexpr absl::Duration kMeetEvery = absl::Seconds(1);
constexpr int kMeetingsPerDetection = 4;
// How long an exiting rank waits for its first-step report to be acknowledged. The first step may
// have just ended. An answer takes milliseconds, or seconds on a busy host; a coordinator that is
// away may stay away.
constexpr absl::Duration kToldWithin = absl::Seconds(5);
// A finished training is worth a long wait for a coordinator that is away.
constexpr absl::Duration kReportWithin = absl::Hours(24);
engine::BucketPlanOptions BucketsOf(const TrainingPlan& plan) {
  engine::BucketPlanOptions options;
  options.cap_bytes = plan.bucket_bytes_max;
  options.first_bytes = std::min(options.first_bytes, options.cap_bytes);
  return options;
}

// The lease does not matter here: the daemon holds it.
Timeouts TimeoutsOf(const TrainingPlan& plan) { return TimeoutsFor(plan.detect_within, {}); }

client::Credentials CredentialsOf(const Environment& environment) {
  if (environment.credentials.empty()) return client::Credentials::Insecure();
  auto credentials = client::Credentials::FromDir(environment.credentials);
  return credentials.ok() ? *std::move(credentials)
                          : client::Credentials::Missing(credentials.status());
}

absl::Span<float> Floats(engine::Group& group, int64_t floats) {
  const absl::Span<uint8_t> memory = group.Allocate(static_cast<size_t>(floats) * sizeof(float));
  return {reinterpret_cast<float*>(memory.data()), static_cast<size_t>(floats)};
}

class RankProgram {
 public:
  RankProgram(const Environment& environment, const Clock& clock)
      : environment_(environment),
        clock_(clock),
        connection_(environment.coordinator, CredentialsOf(environment)),
        background_(connection_.Share()),
        session_(connection_, pause_, environment, clock),
        store_(connection_, pause_,
               {.job = environment.job,
                .generation = environment.generation,
                .caller = {absl::StrCat("rank ", environment.rank), environment.rank}},
               clock) {}

  // Background threads need not wait for the coordinator any more.
  ~RankProgram() { background_->CancelAll(); }

  absl::StatusOr<TrainingEnd> Run() {
    if (!environment_.no_gpu_because.empty()) {
      Log(Severity::kWarning, "trains_on_cpu",
          {{"rank", environment_.rank}, {"reason", environment_.no_gpu_because}});
    }
    ReachFaultPoint("join");
    DP_RETURN_IF_ERROR(session_.Join(kJoinTimeout));
    ReachFaultPoint("load");
    DP_ASSIGN_OR_RETURN(TrainingPlan plan, PlanTraining(session_.spec()));
    DP_RETURN_IF_ERROR(LoadPlugins(plan));
    DP_ASSIGN_OR_RETURN(const Datasets data, OpenDatasets(plan));
    DP_ASSIGN_OR_RETURN(MetricLog metrics, MetricLog::Open(environment_.metrics_file, clock_));
    DP_ASSIGN_OR_RETURN(const auto layers, FitTraining(plan, data));
    if (environment_.rank == 0) {
      const int64_t weight_bytes =
          engine::LayOut(layers).size * static_cast<int64_t>(sizeof(float));
      DP_RETURN_IF_ERROR(
          RankOutputs(plan, environment_, session_.submitted_at()).Check(weight_bytes));
      DP_RETURN_IF_ERROR(ReadInitial(plan, layers));
    }
    DP_RETURN_IF_ERROR(session_.AwaitSealed(TimeoutsOf(plan).rendezvous));
    DP_RETURN_IF_ERROR(AgreeOnPlugins(store_, environment_, plan, TimeoutsOf(plan).rendezvous));
    ReachFaultPoint("connect");
    const absl::StatusOr<TrainingEnd> end = TrainWithPeers(plan, data, metrics);
    TellLoss(plan, end.status());
    const bool done = end.ok() && *end == TrainingEnd::kDone;
    if (first_step_ && !done) (void)first_step_->AwaitTold(kToldWithin);  // best effort
    return end;
  }

 private:
  // Reads the file of train.init, unless there is a checkpoint to go on from. Nobody waits for this
  // rank yet, however long it takes.
  absl::Status ReadInitial(const TrainingPlan& plan,
                           const std::vector<model::CheckedLayer>& layers) {
    if (!session_.checkpoints().empty() || !plan.resume.empty()) return absl::OkStatus();
    DP_ASSIGN_OR_RETURN(initial_, ReadInitialWeights(plan.init, plan.seed, layers));
    return absl::OkStatus();
  }

  absl::StatusOr<TrainingEnd> TrainWithPeers(const TrainingPlan& plan, const Datasets& data,
                                             MetricLog& metrics) {
    DP_ASSIGN_OR_RETURN(std::unique_ptr<engine::Device> device, OpenRankDevice(environment_, plan));
    const int rank = environment_.rank, world_size = environment_.world_size;
    engine::GlobalBatchSampler sampler = TrainSampler(plan, *data.train, rank, world_size);
    const auto remedied = [&](const absl::Status& status) {
      return WithMemoryRemedy(status, environment_, plan, RowsOf(plan, sampler));
    };
    const BackendChoice backend{plan.backend, session_.on_one_worker()};
    if (environment_.on_gpu) {
      SharedPlans plans(store_, rank, world_size, TimeoutsOf(plan).rendezvous);
      absl::StatusOr<RankModel> model =
          plans.MakeModel(plan, *data.train, RowsOf(plan, sampler), std::move(device));
      DP_RETURN_IF_ERROR(remedied(model.status()));
      absl::StatusOr<OpenedGroup> opened =
          OpenGroup(backend, store_, environment_, TimeoutsOf(plan), &*model);
      DP_RETURN_IF_ERROR(remedied(opened.status()));
      return Train(plan, data, metrics, *opened, sampler, *model);
    }
    absl::StatusOr<OpenedGroup> opened =
        OpenGroup(backend, store_, environment_, TimeoutsOf(plan), nullptr);
    DP_RETURN_IF_ERROR(opened.status());
    absl::StatusOr<RankModel> model = MakeRankModel(
        plan, *data.train, RowsOf(plan, sampler), std::move(device),
        {.gradients = [&group = *opened->group](int64_t floats) { return Floats(group, floats); },
         .exchange = ExchangeOver(*opened->group)});
    DP_RETURN_IF_ERROR(remedied(model.status()));
    // Making a model may take a rank longer than a collective may.
    DP_RETURN_IF_ERROR(opened->group->Barrier(TimeoutsOf(plan).store)->Wait());
    return Train(plan, data, metrics, *opened, sampler, *model);
  }

  absl::StatusOr<TrainingEnd> Train(const TrainingPlan& plan, const Datasets& data,
                                    MetricLog& metrics, OpenedGroup& opened,
                                    engine::GlobalBatchSampler& sampler, RankModel& model) {
    engine::Group& group = *opened.group;
    if (environment_.on_gpu) {
      DP_RETURN_IF_ERROR(
          TellDifferentCards(group, {environment_.worker, environment_.card.name()}));
    }
    if (!initial_.empty()) model.device->Write(initial_, model.values->span());
    std::vector<float>().swap(initial_);
    DP_RETURN_IF_ERROR(engine::AlignReplicas(group, model.layout, model.values->span()));
    engine::Reducer reducer(
        group, model.averaged, model.gradients->span(),
        {.buckets = BucketsOf(plan), .gradients_on_device = model.device->stream() != nullptr},
        clock_);
    DP_ASSIGN_OR_RETURN(const std::unique_ptr<engine::StepProgram> program,
                        MakeProgram(plan, *data.train, sampler, group, reducer, model));
    MakeTable(plan, sampler, model);
    Progress progress(ProgressOptionsOf(plan, opened, StepsTotal(plan, sampler)), metrics, clock_);
    const v1::CheckpointManifest manifest =
        ManifestOf(plan, environment_, model.layout, data.train->size(), opened.backend);
    if (environment_.rank == 0) {
      description_ =
          MetadataOf(DescribeTraining(session_.spec(), *data.train, environment_.world_size));
      DP_RETURN_IF_ERROR(PrepareSaver(plan, manifest, model));
    }
    if (table_) {
      DP_RETURN_IF_ERROR(GoOnInTable(progress));
    } else {
      DP_RETURN_IF_ERROR(GoOn(plan, manifest, model, group, progress));
    }
    // The job's own checkpoint, or its table, may be of the last step, so this check would wrongly
    // reject it.
    if (session_.checkpoints().empty() && !table_) {
      DP_RETURN_IF_ERROR(
          CheckSomethingLeft(progress.position(), StepsTotal(plan, sampler), plan.early_stop));
    }
    if (environment_.rank == 0) {
      watch_.emplace(*background_, environment_, clock_);
      first_step_.emplace(*background_, environment_, clock_);
    }
    std::string trace;
    TrainLoop loop({.plan = plan,
                    .model = model,
                    .group = group,
                    .reducer = reducer,
                    .sampler = sampler,
                    .train_set = *data.train,
                    .test_set = *data.test,
                    .progress = progress,
                    .saver = saver_ ? &*saver_ : nullptr,
                    .program = program.get(),
                    .table = table_ ? &*table_ : nullptr,
                    .asked_to_leave = [this] { return watch_ && watch_->asked(); },
                    .first_step_done =
                        [this] {
                          if (first_step_) first_step_->Done();
                        },
                    .stopped_early = [this](const std::string& why) { stopped_early_ = why; },
                    .trace = plan.trace_file.empty() ? nullptr : &trace});
    const absl::StatusOr<TrainingEnd> run = loop.Run();
    // Now rather than after the destructors, which wait for what the device has queued.
    if (environment_.on_gpu) TellLoss(plan, run.status());
    DP_ASSIGN_OR_RETURN(const TrainingEnd end, run);
    absl::Status saved;
    // Every rank makes the last state durable, and can push again until it is. The table stays
    // until all have done so.
    if (table_) {
      DP_RETURN_IF_ERROR(table_->Publish(/*done=*/false));
      DP_RETURN_IF_ERROR(group.Barrier(plan.detect_within)->Wait());
    }
    DP_RETURN_IF_ERROR(
        LeaveBehind(plan, {loop, end, progress.steps(), model, group, manifest, trace}, saved));
    end == TrainingEnd::kDone ? progress.Ended()
                              : progress.HandedOver(table_ || !plan.checkpoint.dir.empty(), saved);
    // Leave() fails if a peer dies now. The peer fails by itself; this rank's results are
    // complete.
    (void)group.Leave()->Wait();
    return end;
  }

  // A training whose loop has ended.
  struct Ended {
    TrainLoop& loop;
    TrainingEnd end;
    int64_t steps;
    RankModel& model;
    engine::Group& group;
    const v1::CheckpointManifest& manifest;
    const std::string& trace;
  };

  // Saves the last state, whose outcome is `saved`, and writes the results of a training that is
  // done. All ranks stay in the group until rank 0 has written them.
  absl::Status LeaveBehind(const TrainingPlan& plan, const Ended& ended, absl::Status& saved) {
    const absl::Duration often = std::min(kMeetEvery, plan.detect_within / kMeetingsPerDetection);
    const auto save = [&]() -> absl::Status {
      if (table_) DP_RETURN_IF_ERROR(table_->Publish(ended.end == TrainingEnd::kDone));
      saved = ended.loop.SaveEnd();
      return ended.model.device->status();
    };
    if (ended.end != TrainingEnd::kDone) return FinishTogether(ended.group, often, save);
    if (!plan.weights_of_best) {
      return FinishTogether(ended.group, often, [&]() -> absl::Status {
        DP_RETURN_IF_ERROR(save());
        return WriteResults(plan, ended.model, ended.steps, ended.trace);
      });
    }
    // The last state is saved before another one takes its place in the model.
    DP_RETURN_IF_ERROR(FinishTogether(ended.group, often, save));
    DP_ASSIGN_OR_RETURN(const int64_t step,
                        TakeBest(saver_ ? saver_->best() : std::nullopt, ended.manifest,
                                 ended.steps, ended.model, ended.group));
    if (environment_.rank == 0) Log(Severity::kInfo, "weights_of_best", {{"step", step}});
    return FinishTogether(ended.group, often,
                          [&] { return WriteResults(plan, ended.model, step, ended.trace); });
  }

  // A trace shows the reducer's work, so a rank that is alone gets a reducer only for a trace.
  // Null, too, for steps in parts, steps in a table and local SGD, which no program takes.
  absl::StatusOr<std::unique_ptr<engine::StepProgram>> MakeProgram(
      const TrainingPlan& plan, const engine::Dataset& data,
      const engine::GlobalBatchSampler& sampler, const engine::Group& group,
      engine::Reducer& reducer, RankModel& model) const {
    if (plan.accumulate > 1 || plan.local_sgd || plan.table) return nullptr;
    const bool alone = group.size() == 1 && plan.trace_file.empty();
    auto program = model.device->MakeStepProgram({.network = *model.network,
                                                  .optimizer = *model.optimizer,
                                                  .data = data,
                                                  .tail = model.tail(),
                                                  .reducer = alone ? nullptr : &reducer});
    DP_RETURN_IF_ERROR(WithMemoryRemedy(program.status(), environment_, plan, sampler.capacity()));
    return program;
  }

  Progress::Options ProgressOptionsOf(const TrainingPlan& plan, const OpenedGroup& opened,
                                      int64_t steps_total) const {
    return {.rank = opened.group->rank(),
            .world_size = opened.group->size(),
            .threads = plan.threads,
            .backend = opened.backend,
            .device = environment_.device(),
            .precision = NameOf(plan.precision),
            .epochs_total = plan.epochs,
            .steps_total = steps_total,
            .tokens_per_sample = TokensPerSample(plan)};
  }

  absl::Status PrepareSaver(const TrainingPlan& plan, const v1::CheckpointManifest& manifest,
                            const RankModel& model) {
    if (plan.checkpoint.dir.empty()) return absl::OkStatus();
    const Saver::Options options{
        .directory = JobDirectory(plan.checkpoint.dir, environment_.job, session_.submitted_at()),
        .every_steps = plan.checkpoint.every_steps,
        .every = plan.checkpoint.every,
        .keep = plan.checkpoint.keep,
        .best = plan.checkpoint.best,
        .manifest = manifest,
        .description = description_};
    saver_.emplace(options, environment_, model, *background_, clock_);
    return BlamePlace("train.checkpoint.dir", saver_->Prepare(session_.checkpoints()));
  }

  // Resumes from the job's own checkpoints; if there are none, from those of train.resume.
  absl::Status GoOn(const TrainingPlan& plan, const v1::CheckpointManifest& manifest,
                    RankModel& model, engine::Group& group, Progress& progress) {
    std::vector<ResumePoint> points;
    for (const v1::Checkpoint& one : session_.checkpoints()) {
      points.push_back({one.path(), one.sha256()});
    }
    if (points.empty()) points = plan.resume;
    DP_ASSIGN_OR_RETURN(const std::optional<Resumed> resumed,
                        Resume(points, manifest, model, group));
    if (!resumed) return absl::OkStatus();
    v1::Metric told;
    told.set_path(resumed->path);
    if (!resumed->message.empty()) told.set_message(resumed->message);
    progress.Resumed(resumed->position, told);
    if (saver_) saver_->Resumed(resumed->position);
    return absl::OkStatus();
  }

  void MakeTable(const TrainingPlan& plan, const engine::GlobalBatchSampler& sampler,
                 RankModel& model) {
    if (!plan.table) return;
    table_.emplace(plan, environment_, model,
                   TableSettingsOf(plan, model.layout, environment_.world_size,
                                   StepsOfEpoch(plan, sampler), StepsTotal(plan, sampler)),
                   connection_, pause_, clock_);
  }

  // Takes the values and the position of the job's table. A new table takes those of rank 0.
  absl::Status GoOnInTable(Progress& progress) {
    DP_ASSIGN_OR_RETURN(const Position at, table_->Join());
    if (at.step == 0) return absl::OkStatus();
    v1::Metric told;
    told.set_message("from the parameters that the coordinator keeps");
    progress.Resumed(at, told);
    return absl::OkStatus();
  }

  // Rank 0 only.
  absl::Status WriteResults(const TrainingPlan& plan, const RankModel& model, int64_t steps,
                            const std::string& trace) {
    if (!stopped_early_.empty()) {
      DP_RETURN_IF_ERROR(session_.StopEarly(stopped_early_, kReportWithin));
    }
    const RankOutputs outputs(plan, environment_, session_.submitted_at());
    DP_RETURN_IF_ERROR(
        outputs.WriteWeights(model, steps, description_, *background_, clock_, pause_));
    return outputs.WriteTrace(trace);
  }

  // Once: if a peer was lost, says so to the coordinator, and waits until the world is closed.
  void TellLoss(const TrainingPlan& plan, const absl::Status& lost) {
    if (!LostPeer(lost) || std::exchange(told_loss_, true)) return;
    Log(Severity::kWarning, "peer_lost",
        {{"rank", environment_.rank}, {"error", std::string(lost.message())}});
    const std::vector<int> missing = engine::MissingRanks(lost);
    for (const bool insist : {false, true}) {
      (void)session_.Accuse(missing, lost, insist, plan.detect_within);  // best effort
      const absl::Duration patience = insist ? plan.detect_within : kPeersSpeakWithin;
      if (session_.AwaitClosed(patience).ok()) break;
    }
  }

  const Environment& environment_;
  const Clock& clock_;
  client::Connection connection_;
  const std::unique_ptr<client::Connection>
      background_;  // for threads other than the training thread
  client::Pause pause_;
  WorldSession session_;
  client::GrpcStore store_;
  std::optional<TableLink> table_;  // with strategy ps
  bool told_loss_ = false;
  std::string stopped_early_;  // why the training ends before its last step; empty: it does not
  // Rank 0 only.
  std::vector<float>
      initial_;  // values of the model at the start; empty: those drawn from the seed
  SafetensorsMetadata description_;  // of the model, in its files of weights
  std::optional<Saver> saver_;
  std::optional<HandoverWatch> watch_;
  std::optional<FirstStepReport> first_step_;
};

}  // namespace

bool LostPeer(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsAborted(status);
}

absl::StatusOr<TrainingEnd> RunRank(const Environment& environment, const Clock& clock) {
  return RankProgram(environment, clock).Run();
}

}  // namespace dp::trainer
