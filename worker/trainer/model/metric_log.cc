#include "worker/trainer/model/metric_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/program/log.h"
#include "google/protobuf/util/json_util.h"
#include "proto/convert/time.h"

namespace dp::trainer {
namespace {

std::string JsonLine(const v1::Metric& metric) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string line;
  DP_CHECK(google::protobuf::util::MessageToJsonString(metric, &line, options).ok());
  line.push_back('\n');
  return line;
}

// Empty where too little has been measured.
std::string RateText(const v1::Metric& m) {
  if (m.has_tokens_per_second()) return absl::StrFormat(" %.0f tokens/s", m.tokens_per_second());
  if (m.has_images_per_second()) return absl::StrFormat(" %.0f images/s", m.images_per_second());
  return "";
}

std::string ReadableEvaluation(const v1::Metric& m) {
  std::string line =
      absl::StrFormat("epoch %d/%d test loss %.4f", m.epoch(), m.epochs_total(), m.loss());
  if (m.has_accuracy()) absl::StrAppendFormat(&line, " test accuracy %.4f", m.accuracy());
  if (m.has_top5_accuracy()) absl::StrAppendFormat(&line, " top-5 %.4f", m.top5_accuracy());
  if (m.has_perplexity()) absl::StrAppendFormat(&line, " perplexity %.4g", m.perplexity());
  if (m.has_mean_absolute_error()) {
    absl::StrAppendFormat(&line, " mean absolute error %.4g", m.mean_absolute_error());
  }
  if (m.has_r2()) absl::StrAppendFormat(&line, " R2 %.4f", m.r2());
  return line;
}

// The bytes of local SGD. Empty for other strategies.
std::string BytesText(const v1::Metric& m) {
  if (!m.has_ddp_bytes_per_step()) return "";
  return absl::StrFormat(" reduces %.2f%% of ddp's bytes",
                         100 * m.reduced_bytes_per_step() / m.ddp_bytes_per_step());
}

std::string ReadableEnd(const v1::Metric& m) {
  std::string line = absl::StrFormat("finished %d steps in %.1f s", m.step(), m.seconds());
  if (m.has_accuracy()) absl::StrAppendFormat(&line, ", test accuracy %.4f", m.accuracy());
  return line;
}

}  // namespace

absl::StatusOr<MetricLog> MetricLog::Open(const std::string& path, const Clock& clock) {
  if (path.empty()) return MetricLog(FileDescriptor(), clock);
  FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (file.valid()) return MetricLog(std::move(file), clock);
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot open metrics file ", path));
}

void MetricLog::Write(v1::Metric metric) {
  // Microseconds are precise enough and make the line shorter.
  *metric.mutable_time() = ToProto(absl::FromUnixMicros(absl::ToUnixMicros(clock_.Now())));
  if (file_.valid()) WriteLine(metric);
  const std::string readable = Readable(metric);
  if (readable.empty()) return;
  std::printf("%s\n", readable.c_str());
  std::fflush(stdout);
}

void MetricLog::WriteLine(const v1::Metric& metric) {
  const std::string line = (partial_ ? "\n" : "") + JsonLine(metric);
  const ssize_t written = write(file_.get(), line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) {
    partial_ = false;
    return;
  }
  const std::string reason = written < 0 ? std::strerror(errno) : "the disk is full";
  partial_ = partial_ || written > 0;
  if (!std::exchange(warned_, true)) Log(Severity::kWarning, "metrics_lost", {{"reason", reason}});
}

std::string Readable(const v1::Metric& m) {
  if (m.event() == "start") {
    return absl::StrFormat("rank %d of %d: training starts on %s in %s, backend %s, threads %d",
                           m.rank(), m.world_size(), m.device(), m.precision(), m.backend(),
                           m.threads());
  }
  if (m.event() == "epoch") {
    return absl::StrFormat("epoch %d/%d loss %.4f%s%s", m.epoch(), m.epochs_total(), m.loss(),
                           RateText(m), BytesText(m));
  }
  if (m.event() == "eval") {
    return ReadableEvaluation(m);
  }
  if (m.event() == "device") {
    return absl::StrFormat("rank %d device %d: %d samples, computed for %.2f s, %.0f%% of the work",
                           m.rank(), m.device_index(), m.samples(), m.seconds(),
                           100 * m.busy_share());
  }
  if (m.event() == "resume") {
    std::string line = absl::StrFormat("goes on from step %d", m.step());
    if (!m.path().empty()) absl::StrAppend(&line, ": ", m.path());
    if (!m.message().empty()) absl::StrAppend(&line, " (", m.message(), ")");
    return line;
  }
  if (m.event() == "checkpoint") {
    return absl::StrFormat("checkpoint of step %d in %s", m.step(), m.path());
  }
  if (m.event() == "checkpoint_lost") {
    return absl::StrFormat("no checkpoint of step %d: %s", m.step(), m.message());
  }
  if (m.event() == "best_checkpoint") {
    return absl::StrFormat("best checkpoint so far is of step %d: %s", m.step(), m.message());
  }
  if (m.event() == "handover") {
    const std::string line = absl::StrFormat("leaves after step %d, as asked", m.step());
    return m.message().empty() ? line : absl::StrCat(line, "; ", m.message());
  }
  if (m.event() == "early_stop") {
    return absl::StrFormat("stops early after step %d: %s", m.step(), m.message());
  }
  return m.event() == "end" ? ReadableEnd(m) : "";
}

}  // namespace dp::trainer
