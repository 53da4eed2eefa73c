#pragma once

#include <cstdint>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "dp/plugin_abi.h"

// Layers of your own for dp's training jobs: docs/plugins.md. A library defines classes derived
// from dp::plugin::Layer and names them once:
//
//   DP_PLUGIN(dp::plugin::layer<ScaledTanh>("scaledTanh"))
//
// A layer may throw; the job then fails with the exception's text. This header needs the standard
// library alone, and no library of dp's.

namespace dp::plugin {

using Shape = std::vector<std::int64_t>;  // outermost first, without the batch

// The layer's config in the job file. Values have paths: "scale", "widths[0]", "init.std". Errors
// are std::invalid_argument, which name the path, the value and what was expected.
class Config {
 public:
  explicit Config(std::span<const DpPluginValue> values) {
    for (const DpPluginValue& value : values) {
      values_[value.path] = {value.type, value.number, value.text};
    }
  }

  bool has(const std::string& path) const { return values_.contains(path); }

  double number(const std::string& path) const { return get(path, DP_PLUGIN_NUMBER).number; }
  double number(const std::string& path, double fallback) const {
    return has(path) ? number(path) : fallback;
  }
  // A whole number.
  std::int64_t integer(const std::string& path) const {
    const double value = number(path);
    constexpr double kExact = 9007199254740992.0;  // 2^53
    if (!(value >= -kExact && value <= kExact) ||
        value != static_cast<double>(static_cast<std::int64_t>(value))) {
      throw std::invalid_argument("config." + path + " is " + std::to_string(value) +
                                  "; it must be a whole number");
    }
    return static_cast<std::int64_t>(value);
  }
  std::int64_t integer(const std::string& path, std::int64_t fallback) const {
    return has(path) ? integer(path) : fallback;
  }
  bool flag(const std::string& path) const { return get(path, DP_PLUGIN_FLAG).number != 0; }
  bool flag(const std::string& path, bool fallback) const {
    return has(path) ? flag(path) : fallback;
  }
  std::string text(const std::string& path) const { return get(path, DP_PLUGIN_TEXT).text; }
  std::string text(const std::string& path, const std::string& fallback) const {
    return has(path) ? text(path) : fallback;
  }
  // The length of a list or mapping.
  std::int64_t size(const std::string& path) const {
    const bool mapping = has(path) && values_.at(path).type == DP_PLUGIN_MAPPING;
    return static_cast<std::int64_t>(
        get(path, mapping ? DP_PLUGIN_MAPPING : DP_PLUGIN_LIST).number);
  }
  std::vector<double> numbers(const std::string& path) const {
    std::vector<double> all;
    for (std::int64_t i = 0, count = size(path); i < count; ++i) {
      all.push_back(number(path + "[" + std::to_string(i) + "]"));
    }
    return all;
  }

  // Rejects a field that the layer does not know, such as a misspelt one.
  void expect_only(const std::set<std::string>& fields) const {
    for (const auto& [path, value] : values_) {
      const std::string field = path.substr(0, path.find_first_of(".["));
      if (fields.contains(field)) continue;
      std::string known;
      for (const std::string& each : fields) known += (known.empty() ? "" : ", ") + each;
      throw std::invalid_argument("config has an unknown field '" + field +
                                  "'; there are: " + (known.empty() ? "none" : known));
    }
  }

 private:
  struct Value {
    std::int32_t type = DP_PLUGIN_NULL;
    double number = 0;
    std::string text;
  };

  static std::string name_of(std::int32_t type) {
    constexpr const char* kNames[] = {"empty",  "a flag", "a number",
                                      "a text", "a list", "a mapping"};
    return type >= 0 && type < std::ssize(kNames) ? kNames[type] : "of an unknown type";
  }
  const Value& get(const std::string& path, std::int32_t type) const {
    const auto found = values_.find(path);
    if (found == values_.end()) {
      throw std::invalid_argument("config." + path + " is missing; give " + name_of(type));
    }
    if (found->second.type == type) return found->second;
    throw std::invalid_argument("config." + path + " is " + name_of(found->second.type) +
                                "; it must be " + name_of(type));
  }

  std::map<std::string, Value> values_;
};

// The task of a layer. dp also makes layers only to ask for their shapes, with a batch size of
// 1: get large memory in the first forward.
struct Place {
  Shape input;             // of one sample
  int batch_size = 1;      // the most samples of a call
  int threads = 1;         // how many threads the layer may use
  std::uint64_t seed = 0;  // of the layer's random numbers: with Forward's draw and numbers
};

// How dp draws a parameter's initial values, from the job's seed.
struct Initial {
  std::int32_t type = DP_PLUGIN_CONSTANT;
  float scale = 0;

  static Initial constant(float value) { return {DP_PLUGIN_CONSTANT, value}; }
  static Initial uniform(float bound) { return {DP_PLUGIN_UNIFORM, bound}; }  // (-bound, bound)
  static Initial normal(float deviation) { return {DP_PLUGIN_NORMAL, deviation}; }
};

struct Parameter {
  std::string name;  // "weight": letters, digits, '_' and '-'
  Shape shape;
  Initial initial = {};
  // Above 0: a running statistic instead, which no optimizer changes. Backward writes the batch's
  // measurement, a mean over its samples, in place of a gradient. Over the batches of all ranks,
  // value = (1 - momentum) value + momentum measured.
  float momentum = 0;
};

// A batch on its way forward. Samples lie one behind the other, in the order of their shape.
struct Forward {
  int samples = 0;  // may be 0
  bool training = true;
  std::span<const float> input;                        // samples x input shape
  std::span<float> output;                             // samples x output shape; to be written
  std::span<const std::span<const float>> parameters;  // the values of each
  std::uint64_t draw = 0;                 // differs from step to step, for random numbers; beside
  std::span<const std::int64_t> numbers;  // the samples' numbers in their data set
};

// The batch of the last forward on its way back. Write every gradient: of the loss, which is a sum
// over samples.
struct Backward {
  int samples = 0;
  std::span<const float> input;  // as in forward
  std::span<const float> output;
  std::span<const float> output_gradient;
  std::span<float> input_gradient;  // empty: nobody needs it
  std::span<const std::span<const float>> parameters;
  std::span<const std::span<float>> gradients;  // of each parameter
};

// One layer. Derived classes have a constructor from (const Config&, const Place&), and keep what
// backward needs of forward as members. One thread makes and uses a layer.
class Layer {
 public:
  virtual ~Layer() = default;

  // The shape of one sample, of 1 to 3 extents. The same for each batch size.
  virtual Shape output() const = 0;
  virtual std::vector<Parameter> parameters() const { return {}; }
  virtual void forward(const Forward& batch) = 0;
  virtual void backward(const Backward& batch) = 0;
};

// Between the classes above and the C interface.
namespace detail {

// Runs `work`, and returns the text of its exception.
template <typename Work>
const char* text_of_exception(const Work& work) {
  static thread_local std::string text;
  try {
    work();
    return nullptr;
  } catch (const std::exception& error) {
    text = error.what();
  } catch (...) {
    text = "an exception that is no std::exception";
  }
  return text.c_str();
}

inline std::size_t count(const Shape& shape) {
  std::size_t all = 1;
  for (const std::int64_t extent : shape) all *= static_cast<std::size_t>(extent);
  return all;
}

class Made {
 public:
  Made(std::unique_ptr<Layer> layer, const Shape& input)
      : layer_(std::move(layer)),
        input_size_(count(input)),
        output_(layer_->output()),
        parameters_(layer_->parameters()),
        values_(parameters_.size()),
        gradients_(parameters_.size()) {
    for (const Parameter& each : parameters_) {
      table_.push_back({each.name.c_str(), each.shape.data(),
                        static_cast<std::int32_t>(each.shape.size()), each.initial.type,
                        each.initial.scale, each.momentum});
    }
  }

  DpPluginLayer layer() {
    return {this,
            output_.data(),
            static_cast<std::int32_t>(output_.size()),
            static_cast<std::int32_t>(table_.size()),
            table_.data(),
            [](void* self, const DpPluginForward* batch) {
              return text_of_exception([&] { static_cast<Made*>(self)->forward(*batch); });
            },
            [](void* self, const DpPluginBackward* batch) {
              return text_of_exception([&] { static_cast<Made*>(self)->backward(*batch); });
            },
            [](void* self) { delete static_cast<Made*>(self); }};
  }

 private:
  std::span<const std::span<const float>> view(const float* const* values) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      values_[i] = {values[i], count(parameters_[i].shape)};
    }
    return values_;
  }

  void forward(const DpPluginForward& batch) {
    const auto samples = static_cast<std::size_t>(batch.samples);
    layer_->forward({.samples = batch.samples,
                     .training = batch.training != 0,
                     .input = {batch.input, samples * input_size_},
                     .output = {batch.output, samples * count(output_)},
                     .parameters = view(batch.parameters),
                     .draw = batch.draw,
                     .numbers = {batch.numbers, batch.numbers == nullptr ? 0 : samples}});
  }

  void backward(const DpPluginBackward& batch) {
    const auto samples = static_cast<std::size_t>(batch.samples);
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      gradients_[i] = {batch.gradients[i], count(parameters_[i].shape)};
    }
    const std::size_t in = samples * input_size_, out = samples * count(output_);
    layer_->backward({.samples = batch.samples,
                      .input = {batch.input, in},
                      .output = {batch.output, out},
                      .output_gradient = {batch.output_gradient, out},
                      .input_gradient = {batch.input_gradient, batch.input_gradient ? in : 0},
                      .parameters = view(batch.parameters),
                      .gradients = gradients_});
  }

  const std::unique_ptr<Layer> layer_;
  const std::size_t input_size_;
  const Shape output_;
  const std::vector<Parameter> parameters_;
  std::vector<DpPluginParameter> table_;
  std::vector<std::span<const float>> values_;
  std::vector<std::span<float>> gradients_;
};

template <typename Derived>
const char* make(const DpPluginPlace* place, DpPluginLayer* layer) {
  return text_of_exception([&] {
    const Shape input(place->input, place->input + place->input_axes);
    const Config config({place->config, static_cast<std::size_t>(place->config_size)});
    auto derived = std::make_unique<Derived>(
        config, Place{input, place->batch_size, place->threads, place->seed});
    *layer = (new Made(std::move(derived), input))->layer();
  });
}

}  // namespace detail

// An entry of DP_PLUGIN: the class, and the name that job files use. `name` is a literal.
template <typename Derived>
constexpr DpPluginKind layer(const char* name) {
  return {name, detail::make<Derived>};
}

}  // namespace dp::plugin

// Names the layers of a library. Once in each library, outside of namespaces.
#define DP_PLUGIN(...)                                                                             \
  extern "C" __attribute__((visibility("default"))) const DpPlugin* dp_plugin() {                  \
    static constexpr DpPluginKind kinds[] = {__VA_ARGS__};                                         \
    static constexpr DpPlugin plugin = {DP_PLUGIN_ABI, static_cast<int>(std::size(kinds)), kinds}; \
    return &plugin;                                                                                \
  }
