#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dp/engine.h"
#include "worker/engine/device/device.h"
#include "worker/engine/nn/parameter.h"

namespace dp::library {

// A public Network's model on its device. A backward of the device writes over the gradients of the
// one before. This object adds them up, in memory of its own or of whoever moved them. The running
// statistics of batch norms are those of this object's own batches. Parameters
// are counted in the order of the layers; the device's layout has them the other way round. Not
// thread-safe; one thread makes and uses it.
class CompiledModel {
 public:
  // Errors: InvalidArgument names the layer or the option; Unimplemented another device;
  // ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<CompiledModel>> Make(
      const std::vector<model::LayerSpec>& layers, const distributed::NetworkOptions& options);

  std::vector<distributed::Parameter> parameters();
  // Moves the gradient there, with what it holds. Errors: InvalidArgument the memory does not fit.
  absl::Status MoveGradient(size_t index, const distributed::MutableElements& memory);
  void ZeroGradients();

  // Errors: InvalidArgument the batch does not fit; FailedPrecondition another thread calls.
  absl::StatusOr<distributed::Score> Forward(std::span<const float> inputs,
                                             std::span<const int32_t> labels, engine::Mode mode);
  // The outputs of a batch without labels. Errors: as Forward.
  absl::StatusOr<std::vector<float>> Predict(std::span<const float> inputs);
  // Errors: FailedPrecondition no training forward came before.
  absl::Status Backward(const std::function<void(size_t parameter)>& ready, double scale);

  int classes() const { return static_cast<int>(layers_.back().out.back()); }

 private:
  CompiledModel() = default;

  size_t count() const { return layout_.parameters.size(); }
  // The place in the device's layout of a parameter, and of its index.
  size_t Mirrored(size_t index) const { return count() - 1 - index; }
  const engine::Parameter& parameter(size_t index) const {
    return layout_.parameters[Mirrored(index)];
  }
  // The labels of one sample.
  int64_t labels_of_sample() const;
  absl::Status CheckThread() const;
  // The samples in `inputs`. Errors: as Forward.
  absl::StatusOr<int> CountSamples(std::span<const float> inputs) const;
  absl::Status CheckTokens(std::span<const float> inputs) const;
  absl::Status CheckLabels(std::span<const int32_t> labels, int samples) const;
  // Moves the running statistics by what the latest backward, with this scale, has measured.
  void UpdateStatistics(double scale);
  engine::BatchResult Compute(std::span<const float> inputs, std::span<const int32_t> labels,
                              int samples, engine::Mode mode);

  std::thread::id thread_ = std::this_thread::get_id();
  int batch_size_ = 0;
  std::vector<model::CheckedLayer> layers_;
  engine::ParameterLayout layout_;  // of the parameters, which are trained
  engine::ParameterLayout whole_;   // of the flat arrays: running statistics, too
  std::unique_ptr<engine::Device> device_;
  std::unique_ptr<engine::Array> values_;
  std::unique_ptr<engine::Array> computed_;  // the gradients of the latest backward
  std::unique_ptr<engine::Network> network_;

  std::vector<float> own_gradients_;         // in the layout; empty once all have moved
  std::vector<std::span<float>> gradients_;  // by index

  std::vector<float> padded_;       // a batch with fewer samples than batch_size_
  std::vector<int64_t> samples_;    // their numbers, for dropout
  std::vector<int32_t> unlabeled_;  // zeros, for predictions
  uint64_t draws_ = 0;              // forwards for training so far
  int64_t labels_to_go_back_ = 0;   // of the forward that a backward may follow; 0: none
};

}  // namespace dp::library
