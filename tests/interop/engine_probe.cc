// Lets a script drive the engine: tensors come and go as raw files in a directory.
//
//   engine_probe sampler                       lines "n replicas rank shuffle seed epoch drop_last"
//   on
//                                              stdin; the indices of each, one line, on stdout
//   engine_probe layout PRESET                 name and shape of each parameter, one a line
//   engine_probe initialize PRESET DIR SEED    writes DIR/NAME.f32
//   engine_probe train PRESET DIR BATCH STEPS LR MOMENTUM DECAY
//                                              from DIR/NAME.f32, images.f32 and labels.i32 of all
//                                              steps; writes losses.f32 (mean of each step) and the
//                                              final NAME.f32
//   engine_probe gradients PRESET DIR BATCH    of the mean loss; writes DIR/NAME.gradient.f32

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

#include "base/check.h"
#include "worker/engine/data/sampler.h"
#include "worker/engine/device/device.h"

namespace dp::engine {
namespace {

template <typename T>
std::vector<T> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  DP_CHECK(file.good());
  std::vector<T> values(static_cast<size_t>(file.tellg()) / sizeof(T));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(values.data()), values.size() * sizeof(T));
  return values;
}

void WriteFile(const std::string& path, absl::Span<const float> values) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  DP_CHECK(file.good());
}

// A preset on the CPU whose parameters are files of a directory.
class Model {
 public:
  Model(const std::string& preset, std::string dir)
      : layers_(*model::CheckShapes(*model::Preset(preset), {1, 28, 28})),
        layout_(LayOut(layers_)),
        dir_(std::move(dir)),
        device_(*OpenCpu(1)),
        values_(*device_->Allocate(layout_.size)),
        gradients_(*device_->Allocate(layout_.size)) {}

  void Load() {
    for (const Parameter& p : layout_.parameters) {
      const auto file = ReadFile<float>(dir_ + "/" + p.name + ".f32");
      device_->Write(file, values().subspan(p.offset, p.size));
    }
  }
  void Save(absl::Span<const float> flat, const std::string& ending) const {
    for (const Parameter& p : layout_.parameters) {
      WriteFile(dir_ + "/" + p.name + ending, flat.subspan(p.offset, p.size));
    }
  }

  std::vector<float> Train(int batch_size, int steps, const SgdOptions& options) {
    const auto network = Compile(batch_size);
    const auto sgd = *device_->MakeSgd(options, values(), gradients());
    std::vector<float> losses;
    for (int step = 0; step < steps; ++step) {
      losses.push_back(Backward(*network, batch_size, step));
      sgd->Step();
    }
    return losses;
  }
  void ComputeGradients(int batch_size) { Backward(*Compile(batch_size), batch_size, 0); }

  const ParameterLayout& layout() const { return layout_; }
  absl::Span<float> values() { return values_->span(); }
  absl::Span<float> gradients() { return gradients_->span(); }

 private:
  std::unique_ptr<Network> Compile(int batch_size) {
    images_ = ReadFile<float>(dir_ + "/images.f32");
    labels_ = ReadFile<int32_t>(dir_ + "/labels.i32");
    return *device_->Compile(layers_, batch_size, 0, values(), gradients());
  }

  // Returns the mean loss of the step's batch.
  float Backward(Network& network, int batch_size, int step) {
    const size_t image_floats = size_t{28 * 28} * batch_size;
    const std::vector<int64_t> samples(batch_size);
    const Batch batch{
        .images = absl::MakeConstSpan(images_).subspan(step * image_floats, image_floats),
        .labels = absl::MakeConstSpan(labels_).subspan(step * batch_size, batch_size),
        .samples = samples,
        .count = batch_size};
    const BatchResult result = network.Forward(batch, Mode::kTrain);
    network.Backward(1.0f / static_cast<float>(batch_size), [](int) {});
    return static_cast<float>(result.loss_sum / batch_size);
  }

  const std::vector<model::CheckedLayer> layers_;
  const ParameterLayout layout_;
  const std::string dir_;
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<Array> values_;
  const std::unique_ptr<Array> gradients_;
  std::vector<float> images_;
  std::vector<int32_t> labels_;
};

void DumpSampler() {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream fields(line);
    DistributedSampler sampler;
    uint64_t epoch = 0;
    fields >> sampler.n >> sampler.replicas >> sampler.rank >> sampler.shuffle >> sampler.seed >>
        epoch >> sampler.drop_last;
    DP_CHECK(!fields.fail());
    for (int64_t index : sampler.Indices(epoch)) std::cout << index << ' ';
    std::cout << '\n';
  }
}

void DumpLayout(const ParameterLayout& layout) {
  for (const Parameter& p : layout.parameters) {
    std::cout << p.name << ' ' << model::ShapeText(p.shape) << '\n';
  }
}

void Run(const std::vector<std::string>& arguments) {
  const std::string& verb = arguments.at(0);
  if (verb == "sampler") return DumpSampler();
  const auto number = [&](int i) { return std::atof(arguments.at(i).c_str()); };
  const std::string dir = arguments.size() > 2 ? arguments[2] : "";
  Model model(arguments.at(1), dir);
  if (verb == "layout") return DumpLayout(model.layout());
  if (verb == "initialize") {
    Initialize(model.layout(), static_cast<uint64_t>(number(3)), model.values());
    return model.Save(model.values(), ".f32");
  }
  model.Load();
  const int batch_size = static_cast<int>(number(3));
  if (verb == "gradients") {
    model.ComputeGradients(batch_size);
    return model.Save(model.gradients(), ".gradient.f32");
  }
  DP_CHECK(verb == "train");
  const SgdOptions options{static_cast<float>(number(5)), static_cast<float>(number(6)),
                           static_cast<float>(number(7))};
  WriteFile(dir + "/losses.f32", model.Train(batch_size, static_cast<int>(number(4)), options));
  model.Save(model.values(), ".f32");
}

}  // namespace
}  // namespace dp::engine

int main(int argc, char** argv) { dp::engine::Run({argv + 1, argv + argc}); }
