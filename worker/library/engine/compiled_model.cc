#include "worker/library/engine/compiled_model.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/model/shape_check.h"
#include "base/status.h"

// A function of the OpenMP runtime that oneDNN links, as in cpu_device.cc.
extern "C" int omp_get_max_threads();

namespace dp::library {
namespace {

using distributed::MutableElements;
using distributed::NetworkOptions;

absl::Span<const float> View(std::span<const float> values) {
  return {values.data(), values.size()};
}

absl::Status CheckOptions(const NetworkOptions& options) {
  const auto fits = [](int64_t extent) { return extent > 0; };
  const model::Shape& input = options.input;
  if (input.empty() || input.size() > 3 || !std::all_of(input.begin(), input.end(), fits)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "input is {", absl::StrJoin(input, ", "),
        "}; give the shape of a sample, such as {channels, rows, columns} or {features}"));
  }
  if (options.batch_size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_size is ", options.batch_size, "; give 1 or more"));
  }
  if (options.threads < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "threads is ", options.threads, "; give 1 or more, or 0 for as many as OpenMP takes"));
  }
  if (options.device != "cpu") {
    return absl::UnimplementedError(
        absl::StrCat("device '", options.device, "' is not in this release; give 'cpu'"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<model::CheckedLayer>> Check(const std::vector<model::LayerSpec>& layers,
                                                       const model::Shape& input) {
  DP_ASSIGN_OR_RETURN(std::vector<model::CheckedLayer> checked, model::CheckShapes(layers, input));
  for (const model::CheckedLayer& layer : checked) {
    const auto* norm = std::get_if<model::BatchNorm>(&layer.kind);
    if (norm == nullptr || !norm->sync) continue;
    return absl::UnimplementedError(
        absl::StrCat("layer '", layer.name,
                     "' (batchNorm) has sync, which only jobs compute; leave "
                     "it out, or take dp::SyncBatchNorm of libdp_distributed"));
  }
  const model::CheckedLayer& last = checked.back();
  if (last.out.size() < 3) return checked;
  return absl::InvalidArgumentError(
      absl::StrCat("the last layer '", last.name, "' (", model::KindName(last.kind), ") gives ",
                   model::ShapeText(last.out),
                   "; let a flatten follow, and a linear layer with an output for each class"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CompiledModel>> CompiledModel::Make(
    const std::vector<model::LayerSpec>& layers, const NetworkOptions& options) {
  DP_RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<CompiledModel> made(new CompiledModel);
  made->batch_size_ = options.batch_size;
  DP_ASSIGN_OR_RETURN(made->layers_, Check(layers, options.input));
  made->whole_ = engine::LayOut(made->layers_);
  made->layout_ = made->whole_.Trained();
  const int threads = options.threads == 0 ? omp_get_max_threads() : options.threads;
  DP_ASSIGN_OR_RETURN(made->device_, engine::OpenCpu(threads));
  const int64_t size = made->whole_.size;
  DP_ASSIGN_OR_RETURN(made->values_, made->device_->Allocate(size));
  DP_ASSIGN_OR_RETURN(made->computed_, made->device_->Allocate(size));
  engine::Initialize(made->whole_, options.seed, made->values_->span());
  DP_ASSIGN_OR_RETURN(made->network_,
                      made->device_->Compile(
                          made->layers_, {.batch_size = options.batch_size, .seed = options.seed},
                          made->values_->span(), made->computed_->span()));
  try {
    made->own_gradients_.resize(static_cast<size_t>(size));
    made->samples_.resize(static_cast<size_t>(options.batch_size));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for the gradients, ", size, " floats"));
  }
  std::iota(made->samples_.begin(), made->samples_.end(), 0);
  for (size_t i = 0; i < made->count(); ++i) {
    const engine::Parameter& p = made->parameter(i);
    made->gradients_.push_back(
        std::span(made->own_gradients_)
            .subspan(static_cast<size_t>(p.offset), static_cast<size_t>(p.size)));
  }
  return made;
}

std::vector<distributed::Parameter> CompiledModel::parameters() {
  std::vector<distributed::Parameter> all;
  for (size_t i = 0; i < count(); ++i) {
    const engine::Parameter& p = parameter(i);
    float* const values = values_->span().data() + p.offset;
    all.push_back({p.name, p.shape, std::span(values, static_cast<size_t>(p.size)), gradients_[i]});
  }
  return all;
}

absl::Status CompiledModel::MoveGradient(size_t index, const MutableElements& memory) {
  if (index >= count() || memory.type != distributed::DataType::kFloat32 ||
      memory.count != gradients_[index].size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the memory does not fit the gradient of parameter ", index, ": it has ",
                     memory.count, " elements; give as many floats as the parameter has"));
  }
  if (memory.data == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the address of the memory for the gradient of parameter ", index,
                     " is null; give memory of ", memory.count, " floats"));
  }
  const std::span to(static_cast<float*>(memory.data), memory.count);
  std::copy(gradients_[index].begin(), gradients_[index].end(), to.begin());
  gradients_[index] = to;
  const float* const own = own_gradients_.data();
  const auto is_own = [&](std::span<float> one) {
    return one.data() >= own && one.data() < own + own_gradients_.size();
  };
  if (std::none_of(gradients_.begin(), gradients_.end(), is_own)) {
    std::vector<float>().swap(own_gradients_);
  }
  return absl::OkStatus();
}

void CompiledModel::ZeroGradients() {
  for (const std::span<float> gradient : gradients_) {
    std::fill(gradient.begin(), gradient.end(), 0.0f);
  }
}

int64_t CompiledModel::labels_of_sample() const {
  return model::ElementCount(layers_.back().out) / classes();
}

absl::Status CompiledModel::CheckThread() const {
  if (std::this_thread::get_id() == thread_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "another thread has made the network, and its threads compute for that one; make a network "
      "on each thread that uses one");
}

absl::StatusOr<int> CompiledModel::CountSamples(std::span<const float> inputs) const {
  const auto size = static_cast<size_t>(model::ElementCount(layers_.front().in));
  const size_t samples = inputs.size() / size;
  if (samples > 0 && samples <= static_cast<size_t>(batch_size_) && inputs.size() % size == 0) {
    return static_cast<int>(samples);
  }
  return absl::InvalidArgumentError(absl::StrCat("the batch has ", inputs.size(),
                                                 " values; give 1 to ", batch_size_, " samples of ",
                                                 model::ShapeText(layers_.front().in), " values"));
}

absl::Status CompiledModel::CheckTokens(std::span<const float> inputs) const {
  const auto* const embedding = std::get_if<model::Embedding>(&layers_.front().kind);
  if (embedding == nullptr) return absl::OkStatus();
  const auto is_token = [&](float value) {
    return value >= 0 && value < static_cast<float>(embedding->vocabulary) &&
           value == std::floor(value);
  };
  const auto wrong = std::find_if_not(inputs.begin(), inputs.end(), is_token);
  if (wrong == inputs.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("value ", wrong - inputs.begin(), " of the batch is ", *wrong,
                   "; tokens are whole numbers from 0 to ", embedding->vocabulary - 1));
}

absl::Status CompiledModel::CheckLabels(std::span<const int32_t> labels, int samples) const {
  const int64_t expected = samples * labels_of_sample();
  if (std::ssize(labels) != expected) {
    return absl::InvalidArgumentError(absl::StrCat("the batch has ", labels.size(), " labels for ",
                                                   samples, " samples; give ", expected));
  }
  const auto wrong = std::find_if_not(labels.begin(), labels.end(), [this](int32_t label) {
    return label >= 0 && label < classes();
  });
  if (wrong == labels.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("label ", wrong - labels.begin(), " is ", *wrong,
                                                 "; the model's labels are 0 to ", classes() - 1));
}

engine::BatchResult CompiledModel::Compute(std::span<const float> inputs,
                                           std::span<const int32_t> labels, int samples,
                                           engine::Mode mode) {
  if (samples < batch_size_) {
    const size_t whole = inputs.size() / static_cast<size_t>(samples) * batch_size_;
    padded_.resize(whole);
    std::copy(inputs.begin(), inputs.end(), padded_.begin());
    inputs = padded_;
  }
  return network_->Forward({.images = View(inputs),
                            .labels = {labels.data(), labels.size()},
                            .samples = samples_,
                            .count = samples,
                            .draw = draws_},
                           mode);
}

absl::StatusOr<distributed::Score> CompiledModel::Forward(std::span<const float> inputs,
                                                          std::span<const int32_t> labels,
                                                          engine::Mode mode) {
  DP_RETURN_IF_ERROR(CheckThread());
  DP_ASSIGN_OR_RETURN(const int samples, CountSamples(inputs));
  DP_RETURN_IF_ERROR(CheckTokens(inputs));
  DP_RETURN_IF_ERROR(CheckLabels(labels, samples));
  const bool trains = mode == engine::Mode::kTrain;
  draws_ += trains ? 1 : 0;
  const engine::BatchResult result = Compute(inputs, labels, samples, mode);
  labels_to_go_back_ = trains ? std::ssize(labels) : 0;
  return distributed::Score{.loss = result.loss_sum / static_cast<double>(labels.size()),
                            .correct = result.correct,
                            .labels = std::ssize(labels)};
}

absl::StatusOr<std::vector<float>> CompiledModel::Predict(std::span<const float> inputs) {
  DP_RETURN_IF_ERROR(CheckThread());
  DP_ASSIGN_OR_RETURN(const int samples, CountSamples(inputs));
  DP_RETURN_IF_ERROR(CheckTokens(inputs));
  labels_to_go_back_ = 0;
  unlabeled_.resize(static_cast<size_t>(samples * labels_of_sample()));
  Compute(inputs, unlabeled_, samples, engine::Mode::kEvaluate);
  const size_t of_sample = static_cast<size_t>(model::ElementCount(layers_.back().out));
  std::vector<float> outputs(of_sample * static_cast<size_t>(batch_size_));
  network_->ReadLogits(absl::MakeSpan(outputs));
  outputs.resize(of_sample * static_cast<size_t>(samples));
  return outputs;
}

absl::Status CompiledModel::Backward(const std::function<void(size_t parameter)>& ready,
                                     double scale) {
  DP_RETURN_IF_ERROR(CheckThread());
  if (labels_to_go_back_ == 0) {
    return absl::FailedPreconditionError(
        "backward needs a forward before it; evaluate and predict are none");
  }
  const double of_label = scale / static_cast<double>(labels_to_go_back_);
  labels_to_go_back_ = 0;
  network_->Backward(static_cast<float>(of_label), [&](int place) {
    if (place >= std::ssize(layout_.parameters)) return;  // a statistic
    const size_t index = Mirrored(static_cast<size_t>(place));
    const float* __restrict computed = computed_->span().data() + parameter(index).offset;
    float* __restrict gradient = gradients_[index].data();
    for (size_t i = 0; i < gradients_[index].size(); ++i) gradient[i] += computed[i];
    if (ready != nullptr) ready(index);
  });
  UpdateStatistics(scale);
  return absl::OkStatus();
}

void CompiledModel::UpdateStatistics(double scale) {
  const auto begin = static_cast<size_t>(layout_.size);
  if (begin == computed_->span().size() || scale == 0) return;
  for (float& measured : computed_->span().subspan(begin)) {
    measured = static_cast<float>(measured / scale);
  }
  engine::StepStatistics(whole_, computed_->span(), values_->span());
}

}  // namespace dp::library
