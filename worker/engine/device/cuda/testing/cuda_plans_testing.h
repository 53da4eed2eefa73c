#pragma once

#include <optional>
#include <utility>

#include "worker/engine/device/cuda/libraries/cuda_element_type.h"
#include "worker/engine/device/cuda/plans/cuda_planning.h"
#include "worker/engine/device/cuda/testing/cuda_testing.h"

namespace dp::engine::cuda {

template <typename T>
constexpr ElementType kTypeOf = sizeof(T) == 2 ? ElementType::kBfloat16 : ElementType::kFloat32;

// Runs plans on the device: the libraries' handles, a cache in memory and a workspace.
template <typename T>
class CudaPlansTest : public CudaPrecisionTest<T> {
 protected:
  void SetUp() override {
    CudaPrecisionTest<T>::SetUp();
    if (this->IsSkipped()) return;
    auto libraries = Libraries::Open();
    ASSERT_TRUE(libraries.ok()) << libraries.status();
    libraries_.emplace(*std::move(libraries));
    auto workspace = DeviceBuffer::Allocate(kPlanWorkspaceBytes);
    ASSERT_TRUE(workspace.ok()) << workspace.status();
    workspace_ = *std::move(workspace);
  }

  Planning Plan(Tuning tuning = Tuning::kTimed) {
    return {*libraries_,        cache_,   this->stream(), workspace_.data(),
            workspace_.bytes(), busy_ms_, tuning};
  }
  void Done(const absl::Status& queued) {
    ASSERT_TRUE(queued.ok()) << queued;
    this->Finish(cudaSuccess);
  }

  PlanCache cache_{"", "test"};

 private:
  std::optional<Libraries> libraries_;
  DeviceBuffer workspace_;
  float busy_ms_ = 0;
};

}  // namespace dp::engine::cuda
