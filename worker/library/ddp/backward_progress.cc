#include "worker/library/ddp/backward_progress.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace dp::library {

BackwardProgress::BackwardProgress(std::vector<std::string> names, const Rules& rules)
    : names_(std::move(names)),
      rules_(rules),
      never_used_(names_.size()),
      ready_(names_.size()),
      used_(names_.size()) {}

absl::StatusOr<std::vector<size_t>> BackwardProgress::Report(size_t parameter) {
  if (parameter >= names_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("a gradient is ready for parameter ", parameter,
                                                   ", but the module has ", names_.size(),
                                                   " parameters; count them from 0"));
  }
  std::vector<size_t> complete = BeginIfNeeded();
  if (never_used_[parameter]) {
    return absl::FailedPreconditionError(absl::StrCat(
        "static_graph: parameter ", names_[parameter],
        " had no gradient in the first backward and has one in this; unset static_graph"));
  }
  if (ready_[parameter]) {
    return absl::InvalidArgumentError(
        absl::StrCat("the gradient of parameter ", names_[parameter],
                     " is ready twice in one backward; report it once, after its last use"));
  }
  ready_[parameter] = true;
  used_[parameter] = 1;
  order_.push_back(parameter);
  complete.push_back(parameter);
  return complete;
}

std::vector<size_t> BackwardProgress::BeginIfNeeded() {
  if (begun_) return {};
  begun_ = true;
  ready_ = never_used_;
  order_.clear();
  for (size_t p = 0; p < never_used_.size(); ++p)
    if (never_used_[p]) order_.push_back(p);
  return order_;
}

absl::StatusOr<std::vector<size_t>> BackwardProgress::Finish() {
  std::vector<size_t> complete = BeginIfNeeded();
  const std::vector<size_t> unready = Unready();
  if (!unready.empty() && rules_.static_graph && graph_known_) {
    return absl::FailedPreconditionError(
        absl::StrCat("static_graph: no gradient in this backward for ", NamesOf(unready),
                     ", which had one in the first; unset static_graph"));
  }
  if (!unready.empty() && !rules_.static_graph && !rules_.find_unused_parameters) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no gradient in this backward for ", NamesOf(unready),
        "; set find_unused_parameters if the loss need not depend on every parameter"));
  }
  order_.insert(order_.end(), unready.begin(), unready.end());
  complete.insert(complete.end(), unready.begin(), unready.end());
  begun_ = false;
  return complete;
}

void BackwardProgress::ForgetUse() {
  if (rules_.static_graph && !graph_known_) {
    graph_known_ = true;
    for (size_t p = 0; p < names_.size(); ++p) never_used_[p] = used_[p] == 0;
  }
  std::fill(used_.begin(), used_.end(), 0);
}

std::vector<size_t> BackwardProgress::Unready() const {
  std::vector<size_t> unready;
  for (size_t p = 0; p < ready_.size(); ++p)
    if (!ready_[p]) unready.push_back(p);
  return unready;
}

std::string BackwardProgress::NamesOf(const std::vector<size_t>& parameters) const {
  return absl::StrJoin(parameters, ", ", [this](std::string* out, size_t parameter) {
    absl::StrAppend(out, names_[parameter]);
  });
}

}  // namespace dp::library
