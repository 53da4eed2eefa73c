#include "dp/sync_batch_norm.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/library/batch_norm/batch_norm.h"
#include "worker/library/dist_error.h"
#include "worker/library/in_engine.h"

namespace dp::library {
namespace {

using distributed::DataType;
using distributed::DistError;
using distributed::Elements;
using distributed::ErrorKind;
using distributed::MutableElements;

double* DoublesIn(const BorrowedMemory& memory) {
  return reinterpret_cast<double*>(memory->data());
}

}  // namespace

BatchNorm::BatchNorm(size_t channels, const distributed::SyncBatchNorm::Options& options)
    : channels_((CheckOptions(channels, options), channels)),
      options_(options),
      group_(GroupOrDefault(options.process_group)),
      memory_(MemberOf(group_).memory()),
      weight_(Floats(1)),
      bias_(Floats(0)),
      weight_grad_(Floats(0)),
      bias_grad_(Floats(0)),
      running_mean_(Floats(0)),
      running_var_(Floats(1)),
      state_(Doubles(1 + 2 * channels)) {
  (void)memory_.math();  // rather an error here than in the first step
}

void BatchNorm::CheckOptions(size_t channels, const distributed::SyncBatchNorm::Options& options) {
  const auto reject = [](const std::string& why) {
    throw DistError(ErrorKind::kInvalidArgument, absl::StrCat("SyncBatchNorm: ", why));
  };
  if (channels == 0) reject("0 channels; give one at least");
  if (!(options.eps >= 0)) reject(absl::StrCat("eps is ", options.eps, "; give 0 or more"));
  if (options.momentum && !(*options.momentum >= 0 && *options.momentum <= 1))
    reject(absl::StrCat("momentum is ", *options.momentum, "; give 0 to 1"));
}

BorrowedMemory BatchNorm::Floats(float value) {
  BorrowedMemory floats = memory_.Borrow(channels_ * sizeof(float));
  const std::vector<float> values(channels_, value);
  memory_.Write(values.data(), *floats);
  return floats;
}

ChannelShape BatchNorm::ShapeOf(absl::string_view call, std::initializer_list<Elements> arrays,
                                size_t samples) const {
  const JoinedGroup& member = MemberOf(group_);
  const std::string verb = absl::StrCat("SyncBatchNorm: ", call);
  for (const Elements& array : arrays) CheckArray(member, verb, array);
  if (member.nccl())
    (void)OrThrow(AreOnDevice(*member.nccl(), verb, arrays), ErrorSource::kCaller,
                  member.Context());
  const size_t size = arrays.begin()->count;
  const bool fits =
      samples == 0 ? size == 0 : size % channels_ == 0 && size / channels_ % samples == 0;
  for (const Elements& array : arrays) {
    if (array.count == size && fits) continue;
    throw DistError(ErrorKind::kInvalidArgument,
                    absl::StrCat("SyncBatchNorm: arrays of ", size, " and ", array.count,
                                 " values for ", samples, " samples of ", channels_,
                                 " channels; give both samples x channels x positions"));
  }
  return {.samples = samples,
          .channels = channels_,
          .positions = size == 0 ? 0 : size / channels_ / samples};
}

BatchNormState BatchNorm::StateIn(const BorrowedMemory& doubles) const {
  double* const count = DoublesIn(doubles);
  return {.count = count, .mean = count + 1, .inverse_deviation = count + 1 + channels_};
}

// Where this rank has two values, it need not look at the others' counts, which on a GPU takes
// time.
void BatchNorm::CheckCount(const ChannelShape& mine, const double* packed) {
  if (mine.samples * mine.positions >= 2) return;
  double all = 0;
  for (int rank = 0; rank < group_.size(); ++rank) {
    const double* const its =
        packed + static_cast<size_t>(rank) * engine::BatchStatistics::PackedSize(channels_);
    double count = 0;
    memory_.Read({reinterpret_cast<const uint8_t*>(its), sizeof(count)}, &count);
    all += count;
  }
  if (all >= 2) return;
  throw DistError(ErrorKind::kWrongState,
                  absl::StrCat("SyncBatchNorm: all ranks together have ", all,
                               " values for a channel; give two at least"));
}

void BatchNorm::Forward(std::span<const float> input, std::span<float> output, size_t samples,
                        int64_t batches) {
  const ChannelShape shape = ShapeOf("forward", {input, output}, samples);
  ArrayMath& math = memory_.math();
  const size_t width = engine::BatchStatistics::PackedSize(channels_),
               ranks = static_cast<size_t>(group_.size());
  const BorrowedMemory mine = Doubles(width), all = Doubles(width * ranks);
  if (shape.size() == 0) {
    memory_.Zero(*mine);
  } else {
    const BorrowedMemory workspace = Doubles(math.Workspace(shape));
    memory_.Check(math.SumUp(shape, input.data(), DoublesIn(workspace), DoublesIn(mine)));
  }
  distributed::all_gather(MutableElements(all->data(), width * ranks, DataType::kFloat64),
                          Elements(mine->data(), width, DataType::kFloat64), group_);
  CheckCount(shape, DoublesIn(all));
  forward_ = shape;
  const BatchNormState state = StateIn(state_);
  const double share = options_.momentum.value_or(1.0 / static_cast<double>(batches));
  memory_.Check(math.Combine(channels_, ranks, DoublesIn(all), {options_.eps, share}, state,
                             running_mean().data(), running_var().data()));
  if (shape.size() > 0)
    memory_.Check(
        math.Normalize(shape, input.data(), weight().data(), bias().data(), state, output.data()));
}

void BatchNorm::Evaluate(std::span<const float> input, std::span<float> output, size_t samples) {
  const ChannelShape shape = ShapeOf("evaluate", {input, output}, samples);
  if (shape.size() == 0) return;
  ArrayMath& math = memory_.math();
  const BorrowedMemory running = Doubles(1 + 2 * channels_);
  const BatchNormState state = StateIn(running);
  memory_.Check(math.TakeRunning(channels_, running_mean().data(), running_var().data(),
                                 options_.eps, state));
  memory_.Check(
      math.Normalize(shape, input.data(), weight().data(), bias().data(), state, output.data()));
}

void BatchNorm::Backward(std::span<const float> input, std::span<const float> output_grad,
                         std::span<float> input_grad, size_t samples) {
  const ChannelShape shape = ShapeOf("backward", {input, output_grad, input_grad}, samples);
  if (forward_ != shape)
    throw DistError(ErrorKind::kWrongState,
                    "SyncBatchNorm: backward of another size than the last forward, or without "
                    "one; call it after a forward of the same input");
  ArrayMath& math = memory_.math();
  const BatchNormState state = StateIn(state_);
  const BorrowedMemory sums = Doubles(2 * channels_);
  if (shape.size() == 0) {
    memory_.Zero(*sums);
  } else {
    const BorrowedMemory workspace = Doubles(math.Workspace(shape));
    memory_.Check(math.SumGradients(shape, input.data(), output_grad.data(), state,
                                    DoublesIn(workspace), DoublesIn(sums)));
    memory_.Check(
        math.AddGradients(channels_, DoublesIn(sums), weight_grad().data(), bias_grad().data()));
  }
  distributed::all_reduce(MutableElements(sums->data(), 2 * channels_, DataType::kFloat64),
                          distributed::ReduceOp::kSum, group_);
  if (shape.size() > 0)
    memory_.Check(math.InputGradient(shape, input.data(), output_grad.data(), weight().data(),
                                     state, DoublesIn(sums), input_grad.data()));
}

}  // namespace dp::library

namespace dp::distributed {

using library::BatchNorm;

SyncBatchNorm::SyncBatchNorm(size_t channels, const Options& options)
    : norm_(std::make_unique<BatchNorm>(channels, options)) {
  weight = norm_->weight();
  bias = norm_->bias();
  weight_grad = norm_->weight_grad();
  bias_grad = norm_->bias_grad();
  running_mean = norm_->running_mean();
  running_var = norm_->running_var();
}
SyncBatchNorm::SyncBatchNorm(SyncBatchNorm&&) noexcept = default;
SyncBatchNorm::~SyncBatchNorm() = default;

BatchNorm& SyncBatchNorm::norm() {
  if (norm_ != nullptr) return *norm_;
  throw DistError(ErrorKind::kWrongState,
                  "the SyncBatchNorm has been moved from; use the one that it became");
}

void SyncBatchNorm::forward(std::span<const float> input, std::span<float> output, size_t samples) {
  norm().Forward(input, output, samples, num_batches_tracked + 1);
  num_batches_tracked += 1;
}

void SyncBatchNorm::evaluate(std::span<const float> input, std::span<float> output,
                             size_t samples) {
  norm().Evaluate(input, output, samples);
}

void SyncBatchNorm::backward(std::span<const float> input, std::span<const float> output_grad,
                             std::span<float> input_grad, size_t samples) {
  norm().Backward(input, output_grad, input_grad, samples);
}

}  // namespace dp::distributed
