// Lets a script drive the engine. Tensors are raw files in a directory.
//
//    engine_probe sampler                       reads lines "n replicas rank shuffle seed epoch
//                                               drop_last" from stdin; writes the indices of each,
//                                               one line, to stdout
//
// PRESET is for images, such as "cnn", or for tokens, such as "gpt/64/256": 64 tokens below 256.
// For tokens, images.f32 holds the token numbers. PRESET may also be a file with a job file's
// train.model as JSON, the shape of a sample and the number of classes: "model.json:3x10x10:5".
//
//    engine_probe layout PRESET                 name and shape of each parameter, one a line
//    engine_probe initialize PRESET DIR SEED    writes DIR/NAME.f32
//    engine_probe train PRESET DIR BATCH STEPS LR MOMENTUM DECAY
//                                               from DIR/NAME.f32, images.f32 and labels.i32 of all
//                                               steps; writes losses.f32 (mean of each step) and
//                                               the final NAME.f32
//    engine_probe adamw PRESET DIR BATCH STEPS LR DECAY matrices|all
//                                               the same
//    engine_probe gradients PRESET DIR BATCH [SMOOTHING IGNORED WEIGHTS]
//                                               of the mean loss; writes DIR/NAME.gradient.f32,
//                                               logits.f32 and losses.f32. WEIGHTS are those of the
//                                               classes, with commas; IGNORED and WEIGHTS may be
//                                               "none"
//    engine_probe update PRESET DIR STEPS LR DECAY matrices|all
//                                               AdamW alone: from DIR/NAME.f32 and the gradients
//                                               DIR/NAME.STEP.f32, STEP from 1 on; writes the final
//                                               NAME.f32

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_split.h"
#include "base/check.h"
#include "proto/job/model_layers.h"
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

std::vector<model::CheckedLayer> LayersOfFile(const std::vector<std::string>& fields) {
  const std::vector<char> json = ReadFile<char>(fields[0]);
  v1::ModelSpec spec;
  DP_CHECK(google::protobuf::util::JsonStringToMessage({json.data(), json.size()}, &spec).ok());
  model::Shape input;
  for (const absl::string_view extent : absl::StrSplit(fields[1], 'x')) {
    input.push_back(std::stoll(std::string(extent)));
  }
  return *model::CheckClassifier(*ModelLayers(spec), input, std::stoi(fields[2]));
}

std::vector<model::CheckedLayer> Layers(const std::string& preset) {
  const std::vector<std::string> file = absl::StrSplit(preset, ':');
  if (file.size() == 3) return LayersOfFile(file);
  std::istringstream fields(preset);
  std::string name, tokens, vocabulary;
  std::getline(fields, name, '/');
  std::getline(fields, tokens, '/');
  std::getline(fields, vocabulary);
  if (tokens.empty()) return *model::CheckClassifier(*model::Preset(name), {1, 28, 28}, 10);
  return *model::CheckLanguageModel(*model::Preset(name), std::stoi(tokens), std::stoi(vocabulary));
}

// A preset on the CPU. Its parameters are files in a directory.
class Model {
 public:
  Model(const std::string& preset, std::string dir)
      : layers_(Layers(preset)),
        layout_(LayOut(layers_)),
        dir_(std::move(dir)),
        device_(*OpenCpu(1)),
        values_(*device_->Allocate(layout_.size)),
        gradients_(*device_->Allocate(layout_.size)) {}

  void Load(absl::Span<float> flat, const std::string& ending) {
    for (const Parameter& p : layout_.parameters) {
      const auto file = ReadFile<float>(dir_ + "/" + p.name + ending);
      device_->Write(file, flat.subspan(p.offset, p.size));
    }
  }
  void Save(absl::Span<const float> flat, const std::string& ending) const {
    for (const Parameter& p : layout_.parameters) {
      WriteFile(dir_ + "/" + p.name + ending, flat.subspan(p.offset, p.size));
    }
  }

  std::vector<float> Train(int batch_size, int steps, const OptimizerOptions& options) {
    const auto network = Compile(batch_size);
    const auto optimizer = *device_->MakeOptimizer(options, layout_, values(), gradients());
    std::vector<float> losses;
    for (int step = 0; step < steps; ++step) {
      losses.push_back(Backward(*network, batch_size, step));
      optimizer->Step({.number = step + 1});
    }
    return losses;
  }
  void Update(int steps, const OptimizerOptions& options) {
    const auto optimizer = *device_->MakeOptimizer(options, layout_, values(), gradients());
    for (int step = 1; step <= steps; ++step) {
      Load(gradients(), "." + std::to_string(step) + ".f32");
      optimizer->Step({.number = step});
    }
  }
  void ComputeGradients(int batch_size, const CrossEntropyLoss& loss) {
    loss_ = loss;
    const auto network = Compile(batch_size);
    WriteFile(dir_ + "/losses.f32", {Backward(*network, batch_size, 0)});
    std::vector<float> logits(batch_size * model::ElementCount(layers_.back().out));
    network->ReadLogits(absl::MakeSpan(logits));
    WriteFile(dir_ + "/logits.f32", logits);
  }

  const ParameterLayout& layout() const { return layout_; }
  absl::Span<float> values() { return values_->span(); }
  absl::Span<float> gradients() { return gradients_->span(); }

 private:
  std::unique_ptr<Network> Compile(int batch_size) {
    images_ = ReadFile<float>(dir_ + "/images.f32");
    labels_ = ReadFile<int32_t>(dir_ + "/labels.i32");
    return *device_->Compile(layers_, {.batch_size = batch_size, .loss = loss_}, values(),
                             gradients());
  }

  // Returns the mean loss of the step's batch.
  float Backward(Network& network, int batch_size, int step) {
    const size_t inputs = model::ElementCount(layers_.front().in) * batch_size;
    const model::Shape& out = layers_.back().out;
    const size_t labels = model::ElementCount(out) / out.back() * batch_size;
    const std::vector<int64_t> samples(batch_size);
    const absl::Span<const int32_t> of_step =
        absl::MakeConstSpan(labels_).subspan(step * labels, labels);
    const double weight = TotalsOf(loss_, static_cast<int64_t>(labels), of_step).weight;
    const Batch batch{.images = absl::MakeConstSpan(images_).subspan(step * inputs, inputs),
                      .labels = of_step,
                      .samples = samples,
                      .count = batch_size,
                      .loss_factor = static_cast<float>(static_cast<double>(labels) / weight)};
    const BatchResult result = network.Forward(batch, Mode::kTrain);
    network.Backward(1.0f / static_cast<float>(labels), [](int) {});
    return static_cast<float>(result.loss_sum / weight);
  }

  const std::vector<model::CheckedLayer> layers_;
  const ParameterLayout layout_;
  const std::string dir_;
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<Array> values_;
  const std::unique_ptr<Array> gradients_;
  CrossEntropyLoss loss_;
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

CrossEntropyLoss LossOf(double smoothing, const std::string& ignored, const std::string& weights) {
  CrossEntropyLoss loss = {.label_smoothing = smoothing};
  if (ignored != "none") loss.ignored = std::stoi(ignored);
  if (weights == "none") return loss;
  for (const absl::string_view weight : absl::StrSplit(weights, ',')) {
    loss.class_weights.push_back(std::stof(std::string(weight)));
  }
  return loss;
}

OptimizerOptions AdamW(double learning_rate, double decay, const std::string& what) {
  return {AdamWOptions{
      .learning_rate = learning_rate, .weight_decay = decay, .decay_all = what == "all"}};
}

void Run(const std::vector<std::string>& arguments) {
  const std::string& verb = arguments.at(0);
  if (verb == "sampler") return DumpSampler();
  const auto number = [&](int i) { return std::atof(arguments.at(i).c_str()); };
  const auto whole = [&](int i) { return std::atoi(arguments.at(i).c_str()); };
  const std::string dir = arguments.size() > 2 ? arguments[2] : "";
  Model model(arguments.at(1), dir);
  if (verb == "layout") return DumpLayout(model.layout());
  if (verb == "initialize") {
    Initialize(model.layout(), static_cast<uint64_t>(number(3)), model.values());
    return model.Save(model.values(), ".f32");
  }
  model.Load(model.values(), ".f32");
  if (verb == "gradients") {
    const bool has_loss = arguments.size() > 4;
    model.ComputeGradients(whole(3), has_loss ? LossOf(number(4), arguments.at(5), arguments.at(6))
                                              : CrossEntropyLoss());
    return model.Save(model.gradients(), ".gradient.f32");
  }
  if (verb == "update") {
    model.Update(whole(3), AdamW(number(4), number(5), arguments.at(6)));
    return model.Save(model.values(), ".f32");
  }
  DP_CHECK(verb == "train" || verb == "adamw");
  const OptimizerOptions options =
      verb == "adamw" ? AdamW(number(5), number(6), arguments.at(7))
                      : OptimizerOptions{SgdOptions{number(5), static_cast<float>(number(6)),
                                                    static_cast<float>(number(7)), whole(8) != 0}};
  WriteFile(dir + "/losses.f32", model.Train(whole(3), whole(4), options));
  model.Save(model.values(), ".f32");
}

}  // namespace
}  // namespace dp::engine

int main(int argc, char** argv) { dp::engine::Run({argv + 1, argv + argc}); }
