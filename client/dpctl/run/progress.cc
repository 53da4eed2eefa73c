#include "client/dpctl/run/progress.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "google/protobuf/util/json_util.h"

namespace dp::ctl {
namespace {

constexpr int kBarColumns = 24;

std::optional<v1::Metric> Parse(absl::string_view json) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // a newer trainer may add fields
  v1::Metric metric;
  const auto status =
      google::protobuf::util::JsonStringToMessage({json.data(), json.size()}, &metric, options);
  if (!status.ok()) return std::nullopt;
  return metric;
}

// "[=====>     ]"
std::string Filled(double share) {
  const int filled = static_cast<int>(std::clamp(share, 0.0, 1.0) * kBarColumns);
  std::string bar(static_cast<size_t>(filled), '=');
  if (filled < kBarColumns) bar += '>';
  bar.resize(kBarColumns, ' ');
  return absl::StrCat("[", bar, "]");
}

}  // namespace

void Progress::Add(absl::string_view json) {
  const std::optional<v1::Metric> metric = Parse(json);
  if (!metric) return;
  if (metric->has_epochs_total()) epochs_total_ = metric->epochs_total();
  if (metric->has_steps_total()) steps_total_ = metric->steps_total();
  if (metric->event() == "step") last_step_ = *metric;
  // The end event of other ranks than the first has none.
  if (metric->has_accuracy()) test_accuracy_ = metric->accuracy();
}

std::string Progress::EpochText(int epoch) const {
  return epochs_total_ > 0 ? absl::StrCat("epoch ", epoch, "/", epochs_total_)
                           : absl::StrCat("epoch ", epoch);
}

std::string Progress::Bar(int columns) const {
  if (!last_step_.has_step()) return "";
  std::string text = absl::StrCat(EpochText(last_step_.epoch()), " ");
  if (steps_total_ > 0) {
    const double share = static_cast<double>(last_step_.step()) / steps_total_;
    absl::StrAppend(&text, Filled(share), " step ", last_step_.step(), "/", steps_total_);
  } else {
    absl::StrAppend(&text, "step ", last_step_.step());
  }
  absl::StrAppendFormat(&text, "  loss %.4f", last_step_.loss());
  if (last_step_.has_tokens_per_second())
    absl::StrAppendFormat(&text, "  %.0f tokens/s", last_step_.tokens_per_second());
  if (last_step_.has_images_per_second())
    absl::StrAppendFormat(&text, "  %.0f images/s", last_step_.images_per_second());
  return text.substr(0, static_cast<size_t>(std::max(columns, 0)));
}

}  // namespace dp::ctl
