// DataParallel of libdp_distributed on the GPUs of one process.
//
//   library_devices --gpus N
//
// The host computes the model. The library does the rest: copies between memories, parts of a
// batch, replicas and the sum of their gradients. Prints a line for each property that holds, and
// exits with 0; exits with 1 at the first that does not hold. Built without the library's kernels
// it exits with 77.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "dp/data_parallel.h"
#include "tests/gpu/property.h"
#include "worker/engine/collectives/cuda/cuda_api.h"
#include "worker/library/memory/device_math.h"

namespace dp::distributed {
namespace {

using gpu_tests::Property;
using Floats = std::vector<float>;

engine::CudaApi& Cuda() {
  static auto* const cuda = engine::LoadCuda().value().release();
  return *cuda;
}

Floats Read(const Tensor& tensor) {
  const Tensor host = tensor.to("cpu");
  const auto values = host.values<float>();
  return {values.begin(), values.end()};
}

// Into memory that stays where it is.
void Write(const Floats& values, Tensor& tensor) {
  const absl::Status copied =
      Cuda().Copy(reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float),
                  static_cast<uint8_t*>(tensor.elements().data), nullptr);
  if (!copied.ok()) throw std::runtime_error(copied.ToString());
}

void Expect(const Tensor& found, const Floats& expected) {
  const Floats values = Read(found);
  if (values.size() != expected.size()) throw std::runtime_error("another number of elements");
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] != expected[i])
      throw std::runtime_error("element " + std::to_string(i) + " is " + std::to_string(values[i]) +
                               ", not " + std::to_string(expected[i]));
}

// Small whole numbers, of which no sum rounds.
Floats Whole(size_t count, int factor) {
  Floats values(count);
  for (size_t i = 0; i < count; ++i) values[i] = float(factor * int(i % 7 + 1));
  return values;
}

// output = input * weight^T, for rows of `in` numbers.
class Linear : public ReplicableModule {
 public:
  Linear(int64_t in, int64_t out, const Floats& values, const std::string& device)
      : weight(Tensor({out, in}, values).to(device)),
        gradient(zeros({out, in}, DataType::kFloat32, device)) {}

  std::vector<Parameter> parameters() override {
    return {{"weight", weight.shape(), weight.elements(), gradient.elements()}};
  }
  std::unique_ptr<ReplicableModule> replicate() const override { return nullptr; }
  std::unique_ptr<ReplicableModule> replicate_on(const std::string& device) const override {
    auto copy = std::make_unique<Linear>(*this);
    copy->weight = weight.to(device);
    copy->gradient = gradient.to(device);
    return copy;
  }
  Tensor forward(const Arguments& inputs) override {
    input_ = std::get<Tensor>(inputs.at(0));
    if (input_.device() != weight.device()) throw std::runtime_error("a part on another device");
    const int64_t samples = input_.shape()[0], out = weight.shape()[0];
    return Tensor({samples, out}, Product(Read(input_), Read(weight), samples)).to(weight.device());
  }
  void backward(const Tensor& output_gradient) override {
    const Floats x = Read(input_), slopes = Read(output_gradient);
    const int64_t out = weight.shape()[0], in = weight.shape()[1];
    Floats sums = Read(gradient);
    for (int64_t n = 0; n < input_.shape()[0]; ++n)
      for (int64_t o = 0; o < out; ++o)
        for (int64_t i = 0; i < in; ++i) sums[o * in + i] += slopes[n * out + o] * x[n * in + i];
    Write(sums, gradient);
  }

  Floats Product(const Floats& x, const Floats& w, int64_t samples) const {
    const int64_t out = weight.shape()[0], in = weight.shape()[1];
    Floats y(samples * out);
    for (int64_t n = 0; n < samples; ++n)
      for (int64_t o = 0; o < out; ++o)
        for (int64_t i = 0; i < in; ++i) y[n * out + o] += w[o * in + i] * x[n * in + i];
    return y;
  }

  Tensor weight, gradient;

 private:
  Tensor input_;
};

class Devices {
 public:
  explicit Devices(int gpus) {
    for (int gpu = 0; gpu < gpus; ++gpu) names_.push_back("cuda:" + std::to_string(gpu));
  }

  void Run() {
    Property("tensors go to every GPU and back", [this] { Copies(); });
    Property("the gradients of the worked example", [this] { WorkedExample(); });
    Property("gradients are those of the whole batch", [this] { WholeBatch(); });
    Property("outputs on the host", [this] { OnHost(); });
    Property("gradients that are added in pieces", [this] { Pieces(); });
    Property("a GPU that is not there is rejected", [this] { Absent(); });
  }

 private:
  void Copies() {
    const Floats numbers = Whole(6 * 1001, 1);
    Tensor tensor({2, 3, 1001}, numbers);
    for (const std::string& name : names_) {
      tensor = tensor.to(name);
      Expect(tensor, numbers);
      const Tensor copy = tensor;
      Expect(copy, numbers);
      Expect(zeros({5}, DataType::kFloat32, name), Floats(5));
    }
    for (const int dim : {0, 1, 2}) {
      std::vector<Tensor> parts;
      for (const Arguments& part : scatter({tensor}, names_, dim))
        parts.push_back(std::get<Tensor>(part[0]));
      Expect(gather(parts, names_[0], dim), numbers);
    }
  }

  void WorkedExample() {
    Linear model(2, 3, Whole(6, 1), names_[0]);
    DataParallel parallel(model, {.device_ids = names_});
    parallel.forward({Tensor({2, 2}, Floats{0.4362f, 0.4574f, 0.2052f, 0.2362f})});
    parallel.backward(Tensor({2, 3}, Floats{1, 0, 0, 0, 1, 0}));
    Expect(model.gradient, {0.4362f, 0.4574f, 0.2052f, 0.2362f, 0, 0});
  }

  void WholeBatch() {
    constexpr int64_t kSamples = 30, kIn = 5, kOut = 3;
    Linear whole(kIn, kOut, Whole(kIn * kOut, 2), names_[0]), model = whole;
    DataParallel parallel(model, {.device_ids = names_});
    const Tensor inputs({kSamples, kIn}, Whole(kSamples * kIn, 3)),
        slopes({kSamples, kOut}, Whole(kSamples * kOut, 1));
    for (int step = 0; step < 2; ++step) {  // the second accumulates
      const Tensor expected = whole.forward({inputs.to(names_[0])});
      Expect(parallel.forward({inputs}), Read(expected));
      whole.backward(slopes);
      parallel.backward(slopes);
      Expect(model.gradient, Read(whole.gradient));
    }
  }

  void OnHost() {
    Linear model(1, 1, {2}, names_[0]);
    DataParallel parallel(model, {.device_ids = names_, .output_device = "cpu"});
    const Tensor output = parallel.forward({Tensor({4, 1}, Floats{1, 2, 3, 4})});
    if (output.device() != "cpu") throw std::runtime_error("the output is on " + output.device());
    Expect(output, {2, 4, 6, 8});
  }

  // More than 16 MiB of gradients, and then some bytes.
  void Pieces() {
    constexpr int64_t kSize = (int64_t{4} << 20) + 77;
    Linear model(kSize, 1, Whole(kSize, 1), names_[0]);
    DataParallel parallel(model, {.device_ids = names_});
    const auto samples = static_cast<int64_t>(names_.size());
    Floats inputs, expected(kSize);
    for (int64_t sample = 0; sample < samples; ++sample) {
      const Floats row = Whole(kSize, int(sample) + 1);
      inputs.insert(inputs.end(), row.begin(), row.end());
      for (size_t i = 0; i < row.size(); ++i) expected[i] += row[i];
    }
    parallel.forward({Tensor({samples, kSize}, inputs)});
    parallel.backward(Tensor({samples, 1}, Floats(samples, 1)));
    Expect(model.gradient, expected);
  }

  void Absent() {
    try {
      zeros({1}, DataType::kFloat32, "cuda:4096");
    } catch (const DistError& error) {
      if (error.kind() == ErrorKind::kInvalidArgument) return;
      throw;
    }
    throw std::runtime_error("no error");
  }

  std::vector<std::string> names_;
};

}  // namespace
}  // namespace dp::distributed

int main(int argc, char** argv) {
  const bool given = argc == 3 && std::string(argv[1]) == "--gpus";
  if (const auto math = dp::library::MakeDeviceMath({}); !math.ok()) {
    std::printf("%s\n", math.status().ToString().c_str());
    return dp::gpu_tests::kCannotRun;
  }
  try {
    dp::distributed::Devices(given ? std::atoi(argv[2]) : 1).Run();
    return 0;
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return dp::gpu_tests::kWrong;
  }
}
