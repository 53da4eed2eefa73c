#include "worker/engine/collectives/gloo/gloo_mesh.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/hash_store.h"

namespace dp::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Counts the connection ends that a mesh reported.
class Ends {
 public:
  void Add() {
    MutexLock lock(mu_);
    ++count_;
    changed_.NotifyAll();
  }
  void Await(int count) {
    MutexLock lock(mu_);
    while (count_ < count) changed_.Wait(mu_);
  }

 private:
  Mutex mu_;
  CondVar changed_;
  int count_ DP_GUARDED_BY(mu_) = 0;
};

// Connects the meshes of `size` ranks, one thread each; rank 0 counts ends.
std::vector<std::unique_ptr<GlooMesh>> Connect(int size, Ends& ends) {
  HashStore store;
  std::vector<std::unique_ptr<GlooMesh>> meshes;
  for (int r = 0; r < size; ++r)
    meshes.push_back(std::make_unique<GlooMesh>(r, size, [&ends, r] {
      if (r == 0) ends.Add();
    }));
  std::vector<std::jthread> threads;
  for (auto& mesh : meshes)
    threads.emplace_back([&] {
      std::vector<int> missing;
      const auto never = [] { return false; };
      ASSERT_TRUE(mesh->Connect(store, {.address = "127.0.0.1"}, "", never, &missing).ok());
    });
  threads.clear();
  return meshes;
}

TEST(GlooMeshTest, PeersThatLeaveInGoodOrderHaveEndedAndAreNotDead) {
  Ends ends;
  auto meshes = Connect(3, ends);
  std::vector<std::jthread> threads;
  for (auto& mesh : meshes)
    threads.emplace_back([&mesh] { EXPECT_TRUE(mesh->Leave([] { return false; })); });
  threads.clear();
  meshes[2].reset();
  ends.Await(1);
  EXPECT_THAT(meshes[0]->EndedPeers(), ElementsAre(2));
  EXPECT_THAT(meshes[0]->DeadPeers(), IsEmpty());
  meshes[1].reset();
  ends.Await(2);
  EXPECT_THAT(meshes[0]->EndedPeers(), ElementsAre(1, 2));
  EXPECT_THAT(meshes[0]->DeadPeers(), IsEmpty());
}

TEST(GlooMeshTest, AConnectionThatEndsWithoutGoodbyeIsADeath) {
  Ends ends;
  auto meshes = Connect(3, ends);
  meshes[1]->Interrupt();  // closes its connections as the kernel does for a killed process
  ends.Await(1);
  EXPECT_THAT(meshes[0]->DeadPeers(), ElementsAre(1));
}

}  // namespace
}  // namespace dp::engine
