#pragma once

#include <cudnn.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "base/check.h"

namespace dp::engine::cuda::on_host {

// A descriptor of cuDNN's backend API on the host: the values that were set, by attribute.
struct Note {
  cudnnBackendDescriptorType_t type;
  std::map<int, std::vector<char>> attributes;

  template <typename Value>
  std::vector<Value> All(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return {};
    std::vector<Value> values(found->second.size() / sizeof(Value));
    std::memcpy(values.data(), found->second.data(), found->second.size());
    return values;
  }
  template <typename Value>
  Value One(cudnnBackendAttributeName_t name) const {
    const std::vector<Value> values = All<Value>(name);
    DP_CHECK(values.size() == 1);
    return values[0];
  }
  bool Has(cudnnBackendAttributeName_t name) const { return attributes.contains(name); }
  const Note& At(cudnnBackendAttributeName_t name) const {
    return *static_cast<const Note*>(One<void*>(name));
  }
};

// Computes the operations of a graph's note. `given` has the addresses of tensors that are not
// virtual, by tensor number. Their memory holds the tensors' own types, or else floats.
void ComputeNotes(const Note& graph, std::map<int64_t, void*> given, bool of_own_types);

}  // namespace dp::engine::cuda::on_host
