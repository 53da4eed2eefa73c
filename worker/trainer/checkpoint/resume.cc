#include "worker/trainer/checkpoint/resume.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/program/log.h"
#include "base/status.h"
#include "worker/trainer/checkpoint/checkpoint_files.h"
#include "worker/trainer/checkpoint/checkpoint_fit.h"
#include "worker/trainer/fault_point.h"
#include "worker/trainer/side_work.h"

namespace dp::trainer {
namespace {

template <typename T>
absl::Span<uint8_t> Bytes(absl::Span<T> values) {
  return {reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof(T)};
}

// How often the reading rank reports that it reads: well below the shortest detectWithin, 1 s.
constexpr absl::Duration kSignOfLife = absl::Milliseconds(200);

// The reading rank broadcasts this to the others, as bytes, before the tensors.
struct Announcement {
  enum class Verdict : int32_t { kUnreadable, kRefused, kRead, kReading };
  Verdict verdict = Verdict::kUnreadable;
  Position position;
  int32_t ranks = 1;                 // that the checkpoint's training had
  std::array<char, 1024> text = {};  // why it was refused, or what differs

  void Say(const std::string& words) {
    words.copy(text.data(), std::min(words.size(), text.size() - 1));
  }
};

// A state of a metric that this release does not know is dropped, as one of any other metric.
EarlyStopState EarlyStopOf(const v1::EarlyStopState& saved) {
  const auto metric = ParseWatchedMetric(saved.metric());
  if (!metric) return {};
  EarlyStopState state = {.metric = *metric,
                          .best_step = saved.best_step(),
                          .without = saved.without(),
                          .last_step = saved.last_step()};
  if (saved.has_best()) state.best = saved.best();
  return state;
}

Position PositionOf(const v1::CheckpointManifest& manifest) {
  return {.step = manifest.step(),
          .epoch = manifest.epoch(),
          .step_of_epoch = manifest.step_of_epoch(),
          .epoch_loss_sum = manifest.epoch_loss_sum(),
          .epoch_samples = manifest.epoch_samples(),
          .sum_order = SumOrderOf(manifest).value_or(engine::ReduceOrder::kTree),
          .early_stop = EarlyStopOf(manifest.early_stop())};
}

// One rank's part in the search for the checkpoint to start from.
class Resumption {
 public:
  Resumption(const std::vector<ResumePoint>& points, const v1::CheckpointManifest& now,
             RankModel& model, engine::Group& group)
      : points_(points), now_(now), model_(model), group_(group) {}

  absl::StatusOr<std::optional<Resumed>> Run() {
    while (true) {
      DP_ASSIGN_OR_RETURN(const Choice choice, Choose());
      if (choice.point == points_.size()) return NoneReadable();
      Announcement announcement;
      std::optional<TrainingState> state;
      DP_RETURN_IF_ERROR(choice.rank == group_.rank()
                             ? ReadForAll(choice.point, announcement, state)
                             : AwaitReader(choice.rank, announcement));
      const std::string text = announcement.text.data();
      const std::string& path = points_[choice.point].path;
      switch (announcement.verdict) {
        case Announcement::Verdict::kReading:  // never final: AwaitReader waits for the outcome
        case Announcement::Verdict::kUnreadable:
          continue;  // the reading rank does not offer this point again
        case Announcement::Verdict::kRefused:
          return absl::FailedPreconditionError(absl::StrCat(path, ": ", text));
        case Announcement::Verdict::kRead:
          DP_RETURN_IF_ERROR(Share(state, choice.rank));
          if (model_.outer)
            DP_RETURN_IF_ERROR(ShareOuterState(state, announcement.ranks, choice.rank));
          return Resumed{announcement.position, path, MessageOf(choice.point, text)};
      }
    }
  }

 private:
  struct Choice {
    size_t point = 0;  // points_.size(): none
    int rank = 0;
  };

  // The newest point that any rank offers, and the lowest rank that offers it.
  absl::StatusOr<Choice> Choose() {
    std::array<uint64_t, 1> mine = {FirstReadable()};
    std::vector<uint64_t> all(static_cast<size_t>(group_.size()));
    DP_RETURN_IF_ERROR(group_.on_host()
                           .AllGather(Bytes(absl::MakeSpan(mine)), Bytes(absl::MakeSpan(all)))
                           ->Wait());
    const auto best = std::min_element(all.begin(), all.end());
    return Choice{static_cast<size_t>(*best), static_cast<int>(best - all.begin())};
  }

  size_t FirstReadable() {
    for (size_t point = 0; point < points_.size(); ++point) {
      if (unreadable_.count(point) > 0) continue;
      const absl::Status manifest =
          ReadManifest(points_[point].path, points_[point].sha256).status();
      if (manifest.ok()) return point;
      GiveUpOn(point, manifest);
    }
    return points_.size();
  }

  void GiveUpOn(size_t point, const absl::Status& why) {
    unreadable_.insert(point);
    Log(Severity::kWarning, "checkpoint_unreadable",
        {{"path", points_[point].path}, {"reason", std::string(why.message())}});
  }

  std::optional<TrainingState> Read(size_t point, Announcement& announcement) {
    const std::string& path = points_[point].path;
    const auto manifest = ReadManifest(path, points_[point].sha256);
    if (!manifest.ok()) {
      GiveUpOn(point, manifest.status());
      return std::nullopt;
    }
    if (const absl::Status fits = CheckFits(*manifest, now_); !fits.ok()) {
      announcement.verdict = Announcement::Verdict::kRefused;
      announcement.Say(std::string(fits.message()));
      return std::nullopt;
    }
    absl::StatusOr<TrainingState> state =
        ReadTensors(path, *manifest, model_.layout, ArrayNames(*manifest));
    if (!state.ok()) {
      GiveUpOn(point, state.status());
      return std::nullopt;
    }
    ReachFaultPoint("resume");
    announcement.verdict = Announcement::Verdict::kRead;
    announcement.position = PositionOf(*manifest);
    announcement.ranks = std::max(1, manifest->world_size());
    announcement.Say(OtherBits(*manifest, now_));
    return *std::move(state);
  }

  // Reads on another thread and keeps the waiting ranks informed. Some gigabytes take longer than a
  // collective's timeout.
  absl::Status ReadForAll(size_t point, Announcement& announcement,
                          std::optional<TrainingState>& state) {
    SideWork<std::optional<TrainingState>> read("resume",
                                                [&] { return Read(point, announcement); });
    while (!read.DoneWithin(kSignOfLife)) {
      Announcement reading{.verdict = Announcement::Verdict::kReading};
      DP_RETURN_IF_ERROR(Announce(reading, group_.rank()));
    }
    state = read.Take();
    return Announce(announcement, group_.rank());
  }

  absl::Status AwaitReader(int reader, Announcement& announcement) {
    do {
      DP_RETURN_IF_ERROR(Announce(announcement, reader));
    } while (announcement.verdict == Announcement::Verdict::kReading);
    return absl::OkStatus();
  }

  absl::Status Announce(Announcement& announcement, int root) {
    return group_.on_host().Broadcast(Bytes(absl::MakeSpan(&announcement, 1)), root)->Wait();
  }

  // Sends the arrays of `root`, which has read the checkpoint, into the device arrays of the other
  // ranks.
  absl::Status Share(const std::optional<TrainingState>& state, int root) {
    DP_RETURN_IF_ERROR(Share(state ? &state->values : nullptr, model_.values->span(), root));
    const std::vector<engine::OptimizerState> optimizer = model_.optimizer->state();
    for (size_t i = 0; i < optimizer.size(); ++i) {
      DP_RETURN_IF_ERROR(
          Share(state ? &state->optimizer[i].values : nullptr, optimizer[i].values, root));
    }
    return absl::OkStatus();
  }

  absl::Status Share(const std::vector<float>* read, absl::Span<float> array, int root) {
    if (read != nullptr) model_.device->Write(*read, array);
    return group_.Broadcast(Bytes(array), root)->Wait();
  }

  // Each rank goes on with the arrays of its own optimizer. If the checkpoint's training had fewer
  // ranks, the later ones begin again with those of rank 0, and so on.
  absl::Status ShareOuterState(const std::optional<TrainingState>& state, int ranks, int root) {
    std::vector<float> shared(static_cast<size_t>(model_.layout.size));
    const std::vector<engine::OptimizerState> own = model_.optimizer->state();
    const auto share = [&](size_t index) {
      if (state) shared = state->optimizer[index].values;
      return group_.on_host().Broadcast(Bytes(absl::MakeSpan(shared)), root)->Wait();
    };
    DP_RETURN_IF_ERROR(share(own.size()));
    model_.outer->velocity = shared;
    for (size_t i = own.size(); i < own.size() * static_cast<size_t>(ranks); ++i) {
      DP_RETURN_IF_ERROR(share(i + 1));
      const bool mine = group_.rank() % ranks == static_cast<int>(i / own.size());
      if (mine) model_.device->Write(shared, own[i % own.size()].values);
    }
    return absl::OkStatus();
  }

  // In the order of TrainingState::optimizer.
  std::vector<std::string> ArrayNames(const v1::CheckpointManifest& manifest) const {
    const std::vector<engine::OptimizerState> own = model_.optimizer->state();
    std::vector<std::string> names;
    for (const auto& array : own) names.emplace_back(array.name);
    if (!model_.outer) return names;
    names.emplace_back(kOuterVelocity);
    for (int rank = 1; rank < manifest.world_size(); ++rank)
      for (const auto& array : own) names.push_back(NameOfPeersArray(rank, array.name));
    return names;
  }

  absl::StatusOr<std::optional<Resumed>> NoneReadable() const {
    if (points_.empty()) return std::nullopt;
    return absl::FailedPreconditionError(
        absl::StrCat("no rank can read any of the ", points_.size(),
                     " checkpoints, the latest of them at ", points_[0].path,
                     "; the ranks' logs say why: put train.checkpoint.dir on a file system that "
                     "all hosts share, or bring the directory back"));
  }

  std::string MessageOf(size_t point, const std::string& other_bits) const {
    std::string message;
    if (point > 0) {
      message = absl::StrCat("went back: no rank can read ", points_[0].path);
      if (point > 1) absl::StrAppend(&message, " and ", point - 1, " more");
    }
    if (!other_bits.empty()) {
      absl::StrAppend(&message, message.empty() ? "" : "; ", other_bits,
                      ": the bits differ from here on");
    }
    return message;
  }

  const std::vector<ResumePoint>& points_;
  const v1::CheckpointManifest& now_;
  RankModel& model_;
  engine::Group& group_;
  std::set<size_t> unreadable_;  // by this rank
};

}  // namespace

absl::StatusOr<std::optional<Resumed>> Resume(const std::vector<ResumePoint>& points,
                                              const v1::CheckpointManifest& now, RankModel& model,
                                              engine::Group& group) {
  return Resumption(points, now, model, group).Run();
}

absl::Status CheckSomethingLeft(const Position& position, int64_t steps_total,
                                const std::optional<EarlyStopPlan>& stop) {
  if (const auto why = stop ? WhyStopped(*stop, position.early_stop) : std::nullopt) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the training whose checkpoint it resumes has stopped early at step ", position.step, ": ",
        *why, "; raise train.earlyStop.patience, or leave train.earlyStop out"));
  }
  if (position.step < steps_total) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the checkpoint that it resumes is of step ", position.step,
                   ", and the job ends after step ", steps_total,
                   ": nothing is left to train; raise train.epochs or train.maxSteps, or resume an "
                   "earlier checkpoint"));
}

}  // namespace dp::trainer
