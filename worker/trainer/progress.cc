#include "worker/trainer/progress.h"

#include <string>

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
  metric.set_epochs_total(options_.epochs_total);
  metric.set_steps_total(static_cast<int32_t>(options_.steps_total));
  log_.Write(metric);
}

void Progress::EpochBegan(int epoch) {
  epoch_ = epoch;
  epoch_began_ = step_began_ = clock_.Now();
  loss_sum_ = 0;
  samples_ = 0;
}

void Progress::StepDone(double loss, int64_t samples) {
  ++steps_;
  loss_sum_ += loss * static_cast<double>(samples);
  samples_ += samples;
  if (options_.rank != 0) return;
  v1::Metric metric = NewMetric("step");
  metric.set_loss(loss);
  SetRate(samples, step_began_, metric);
  log_.Write(metric);
  step_began_ = clock_.Now();
}

void Progress::EpochDone() {
  if (options_.rank != 0) return;
  v1::Metric metric = NewMetric("epoch");
  metric.set_loss(loss_sum_ / static_cast<double>(samples_));
  metric.set_epochs_total(options_.epochs_total);
  SetRate(samples_, epoch_began_, metric);
  log_.Write(metric);
}

void Progress::Evaluated(const Evaluation& evaluation) {
  last_evaluation_ = evaluation;
  if (options_.rank != 0) return;
  v1::Metric metric = NewMetric("eval");
  metric.set_loss(evaluation.loss);
  metric.set_accuracy(evaluation.accuracy);
  metric.set_samples(static_cast<int32_t>(evaluation.samples));
  metric.set_epochs_total(options_.epochs_total);
  log_.Write(metric);
}

void Progress::Ended() {
  v1::Metric metric = NewMetric("end");
  metric.set_seconds(absl::ToDoubleSeconds(clock_.Now() - began_));
  if (options_.rank == 0 && last_evaluation_) metric.set_accuracy(last_evaluation_->accuracy);
  log_.Write(metric);
}

v1::Metric Progress::NewMetric(absl::string_view event) const {
  v1::Metric metric;
  metric.set_event(std::string(event));
  metric.set_epoch(epoch_);
  metric.set_step(static_cast<int32_t>(steps_));
  return metric;
}

void Progress::SetRate(int64_t samples, absl::Time since, v1::Metric& metric) const {
  metric.set_samples(static_cast<int32_t>(samples));
  const double seconds = absl::ToDoubleSeconds(clock_.Now() - since);
  if (seconds > 0) metric.set_images_per_second(static_cast<double>(samples) / seconds);
}

}  // namespace dp::trainer
