#include "worker/trainer/model/progress.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"

namespace dp::trainer {

Progress::Progress(const Options& options, MetricLog& log, const Clock& clock)
    : options_(options), log_(log), clock_(clock), began_(clock.Now()) {}

void Progress::Started() {
  began_ = clock_.Now();
  v1::Metric metric = NewMetric("start");
  metric.set_rank(options_.rank);
  metric.set_world_size(options_.world_size);
  metric.set_threads(options_.threads);
  metric.set_backend(std::string(options_.backend));
  metric.set_device(options_.device);
  metric.set_precision(options_.precision);
  metric.set_epochs_total(options_.epochs_total);
  metric.set_steps_total(static_cast<int32_t>(options_.steps_total));
  log_.Write(metric);
}

void Progress::Resumed(const Position& position, v1::Metric told) {
  at_ = position;
  if (options_.rank != 0) return;
  v1::Metric metric = NewMetric("resume");
  metric.MergeFrom(told);
  log_.Write(metric);
}

void Progress::EpochBegan(int epoch) {
  epoch_began_ = step_began_ = clock_.Now();
  samples_here_ = 0;
  sent_ = {.steps = 0};
  if (epoch == at_.epoch) return;
  at_ = {
      .step = at_.step, .epoch = epoch, .sum_order = at_.sum_order, .early_stop = at_.early_stop};
}

void Progress::StepDone(const StepReport& report) {
  at_.step += report.steps;
  at_.step_of_epoch += report.steps;
  at_.epoch_loss_sum += report.loss * static_cast<double>(report.samples);
  at_.epoch_samples += report.samples;
  samples_here_ += report.samples;
  sent_.steps += report.steps;
  sent_.reduced_bytes += report.reduced_bytes;
  sent_.ddp_bytes += report.ddp_bytes;
  learning_rate_ = report.learning_rate;
  if (options_.rank != 0) return;
  v1::Metric metric = NewMetric("step");
  metric.set_loss(report.loss);
  metric.set_learning_rate(report.learning_rate);
  if (report.gradient_norm) metric.set_gradient_norm(*report.gradient_norm);
  SetRate(report.samples, step_began_, metric);
  SetBytes(report, metric);
  log_.Write(metric);
  step_began_ = clock_.Now();
}

void Progress::EpochDone() {
  if (options_.rank != 0) return;
  v1::Metric metric = NewMetric("epoch");
  metric.set_loss(at_.epoch_loss_sum / static_cast<double>(at_.epoch_samples));
  metric.set_epochs_total(options_.epochs_total);
  if (learning_rate_) metric.set_learning_rate(*learning_rate_);
  SetRate(samples_here_, epoch_began_, metric);
  SetBytes(sent_, metric);
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  metric.set_samples(static_cast<int32_t>(std::min(at_.epoch_samples, kMost)));
  log_.Write(metric);
}

void Progress::DevicesDone(const std::vector<engine::DeviceLoad>& loads) {
  absl::Duration all;
  for (const engine::DeviceLoad& load : loads) all += load.busy;
  for (size_t device = 0; device < loads.size(); ++device) {
    v1::Metric metric = NewMetric("device");
    metric.set_rank(options_.rank);
    metric.set_device_index(static_cast<int32_t>(device));
    metric.set_samples(static_cast<int32_t>(loads[device].samples));
    metric.set_seconds(absl::ToDoubleSeconds(loads[device].busy));
    if (all > absl::ZeroDuration())
      metric.set_busy_share(absl::FDivDuration(loads[device].busy, all));
    log_.Write(metric);
  }
}

void Progress::Evaluated(const Evaluation& evaluation) {
  last_evaluation_ = evaluation;
  if (options_.rank != 0) return;
  v1::Metric metric = NewMetric("eval");
  metric.set_loss(evaluation.loss);
  if (evaluation.accuracy) metric.set_accuracy(*evaluation.accuracy);
  if (evaluation.perplexity) metric.set_perplexity(*evaluation.perplexity);
  const engine::Measures& measures = evaluation.measures;
  if (measures.top5) metric.set_top5_accuracy(*measures.top5);
  for (const int64_t count : measures.confusion) {
    metric.add_confusion_matrix(static_cast<int32_t>(count));
  }
  if (measures.mean_absolute_error) {
    metric.set_mean_absolute_error(*measures.mean_absolute_error);
  }
  if (measures.r2) metric.set_r2(*measures.r2);
  metric.set_samples(static_cast<int32_t>(evaluation.samples));
  metric.set_epochs_total(options_.epochs_total);
  log_.Write(metric);
}

void Progress::StoppedEarly(const std::string& why) {
  if (options_.rank != 0) return;
  v1::Metric metric = NewMetric("early_stop");
  metric.set_message(why);
  log_.Write(metric);
}

void Progress::Ended() {
  v1::Metric metric = NewMetric("end");
  metric.set_seconds(absl::ToDoubleSeconds(clock_.Now() - began_));
  if (options_.rank == 0 && last_evaluation_ && last_evaluation_->accuracy) {
    metric.set_accuracy(*last_evaluation_->accuracy);
  }
  log_.Write(metric);
}

void Progress::HandedOver(bool saves, const absl::Status& saved) {
  v1::Metric metric = NewMetric("handover");
  if (!saves) {
    metric.set_message("nothing is saved, as the job has no train.checkpoint: it begins anew");
  } else if (!saved.ok()) {
    metric.set_message(
        absl::StrCat("this step is not saved: it goes on from the checkpoint before, "
                     "or begins anew: ",
                     saved.message()));
  }
  log_.Write(metric);
}

v1::Metric Progress::NewMetric(absl::string_view event) const {
  v1::Metric metric;
  metric.set_event(std::string(event));
  metric.set_epoch(at_.epoch);
  metric.set_step(static_cast<int32_t>(at_.step));
  return metric;
}

void Progress::SetRate(int64_t samples, absl::Time since, v1::Metric& metric) const {
  metric.set_samples(static_cast<int32_t>(samples));
  const double seconds = absl::ToDoubleSeconds(clock_.Now() - since);
  if (seconds <= 0 || samples == 0) return;
  const double rate = static_cast<double>(samples) / seconds;
  const int64_t tokens = options_.tokens_per_sample;
  if (tokens == 0) return metric.set_images_per_second(rate);
  metric.set_tokens_per_second(rate * static_cast<double>(tokens));
}

void Progress::SetBytes(const StepReport& report, v1::Metric& metric) {
  if (report.ddp_bytes == 0) return;
  const auto steps = static_cast<double>(report.steps);
  metric.set_reduced_bytes_per_step(static_cast<double>(report.reduced_bytes) / steps);
  metric.set_ddp_bytes_per_step(static_cast<double>(report.ddp_bytes) / steps);
}

}  // namespace dp::trainer
