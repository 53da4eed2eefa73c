#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "dp/module.h"

namespace dp::library {

// A module of vectors of floats, which takes memory for its gradients if it is told to.
class ListedModule : public distributed::Module {
 public:
  struct Values {
    std::string name;
    std::vector<float> values;
  };

  explicit ListedModule(std::vector<Values> parameters, std::vector<Values> buffers = {})
      : values(std::move(parameters)), running(std::move(buffers)) {
    for (const Values& parameter : values) own_.emplace_back(parameter.values.size());
    for (std::vector<float>& own : own_) gradients.push_back(own.data());
  }

  std::vector<distributed::Parameter> parameters() override {
    std::vector<distributed::Parameter> all;
    for (size_t p = 0; p < values.size(); ++p)
      all.push_back(
          {values[p].name, {int64_t(values[p].values.size())}, values[p].values, own_[p]});
    return all;
  }
  std::vector<distributed::Buffer> buffers() override {
    std::vector<distributed::Buffer> all;
    for (Values& buffer : running)
      all.push_back({buffer.name, {int64_t(buffer.values.size())}, buffer.values});
    return all;
  }
  bool move_gradient(size_t index, distributed::MutableElements memory) override {
    if (!moves) return false;
    gradients[index] = static_cast<float*>(memory.data);
    return true;
  }

  // Adds to every element of a gradient, as backward does.
  void Add(size_t parameter, float value) {
    for (size_t i = 0; i < values[parameter].values.size(); ++i) gradients[parameter][i] += value;
  }

  bool moves = true;
  std::vector<Values> values;
  std::vector<Values> running;
  std::vector<float*> gradients;  // by parameter

 private:
  std::vector<std::vector<float>> own_;
};

}  // namespace dp::library
