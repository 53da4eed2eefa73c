#include "worker/trainer/program/rank_program.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "base/mutex.h"
#include "dp/v1/store.grpc.pb.h"
#include "dp/v1/worlds.grpc.pb.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "worker/trainer/testing/fake_checkpoints.h"
#include "worker/trainer/testing/read_metrics.h"

// Whole ranks over gRPC, with a fake coordinator.

namespace dp::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A world that is sealed when a rank joins and closed when a rank accuses others.
class PlayedWorlds final : public v1::Worlds::CallbackService {
 public:
  v1::JoinResponse joined;

  std::vector<bool> insisted() const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return insisted_;
  }
  std::string stopped_early() const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return stopped_early_;
  }

 private:
  static constexpr uint64_t kSealed = 1, kClosed = 2;  // world versions

  // A watch that stays open until its client cancels it.
  struct Parked final : grpc::ServerUnaryReactor {
    void OnCancel() override { Finish(grpc::Status::CANCELLED); }
    void OnDone() override { delete this; }
  };

  grpc::ServerUnaryReactor* Join(grpc::CallbackServerContext* context, const v1::JoinRequest*,
                                 v1::JoinResponse* response) override {
    *response = joined;
    response->mutable_world()->set_state(v1::WORLD_STATE_SEALED);
    response->mutable_world()->set_version(kSealed);
    response->mutable_world()->set_generation(1);
    return Answer(context);
  }
  grpc::ServerUnaryReactor* Watch(grpc::CallbackServerContext* context,
                                  const v1::WatchWorldRequest* request,
                                  v1::WatchWorldResponse* response) override {
    const uint64_t version = insisted().empty() ? kSealed : kClosed;
    if (request->since() >= version) return new Parked;
    response->mutable_world()->set_state(version == kSealed ? v1::WORLD_STATE_SEALED
                                                            : v1::WORLD_STATE_CLOSED);
    response->mutable_world()->set_version(version);
    response->mutable_world()->set_generation(1);
    return Answer(context);
  }
  grpc::ServerUnaryReactor* CompleteFirstStep(grpc::CallbackServerContext* context,
                                              const v1::CompleteFirstStepRequest*,
                                              v1::CompleteFirstStepResponse*) override {
    return Answer(context);
  }
  grpc::ServerUnaryReactor* Accuse(grpc::CallbackServerContext* context,
                                   const v1::AccuseRequest* request, v1::AccuseResponse*) override {
    MutexLock lock(mu_);
    insisted_.push_back(request->insist());
    return Answer(context);
  }
  grpc::ServerUnaryReactor* StopEarly(grpc::CallbackServerContext* context,
                                      const v1::StopEarlyRequest* request,
                                      v1::StopEarlyResponse*) override {
    MutexLock lock(mu_);
    stopped_early_ = request->reason();
    return Answer(context);
  }
  static grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  mutable Mutex mu_;
  std::vector<bool> insisted_ DP_GUARDED_BY(mu_);
  std::string stopped_early_ DP_GUARDED_BY(mu_);
};

// The store of a generation that is over, as after a peer's failure.
class ClosedStore final : public v1::Store::CallbackService {
  grpc::ServerUnaryReactor* Execute(grpc::CallbackServerContext* context, const v1::ExecuteRequest*,
                                    v1::ExecuteResponse*) override {
    return Refuse(context);
  }
  grpc::ServerUnaryReactor* Await(grpc::CallbackServerContext* context, const v1::AwaitRequest*,
                                  v1::AwaitResponse*) override {
    return Refuse(context);
  }
  static grpc::ServerUnaryReactor* Refuse(grpc::CallbackServerContext* context) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish({grpc::StatusCode::ABORTED, "the store is gone"});
    return reactor;
  }
};

class RankProgramTest : public ::testing::Test {
 protected:
  RankProgramTest() {
    for (const char* split : {"train", "t10k"}) WriteImages(split);
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    for (grpc::Service* service :
         std::initializer_list<grpc::Service*>{&worlds_, &checkpoints_, &store_})
      builder.RegisterService(service);
    server_ = builder.BuildAndStart();
    environment_ = {.coordinator = absl::StrCat("127.0.0.1:", port),
                    .job = JobId(7),
                    .generation = Generation(1),
                    .world_size = 1,
                    .worker = "w",
                    .address = "127.0.0.1",
                    .metrics_file = directory_ + "/metrics"};
  }
  ~RankProgramTest() override {
    server_->Shutdown(gpr_now(GPR_CLOCK_REALTIME));
    std::filesystem::remove_all(directory_);
  }

  void WriteImages(const std::string& split) const {
    constexpr char kCount = 8, kSide = 2, kClasses = 10;
    std::string images{0, 0, 8, 3, 0, 0, 0, kCount, 0, 0, 0, kSide, 0, 0, 0, kSide};
    std::string labels{0, 0, 8, 1, 0, 0, 0, kCount};
    for (char i = 0; i < kCount; ++i) {
      images.append(kSide * kSide, i);
      labels.push_back(i % kClasses);
    }
    std::ofstream(directory_ + "/" + split + "-images-idx3-ubyte") << images;
    std::ofstream(directory_ + "/" + split + "-labels-idx1-ubyte") << labels;
  }

  absl::StatusOr<TrainingEnd> Run(int64_t steps, const std::string& more = "",
                                  const std::string& saves = "") {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::Substitute(R"(train { max_steps: $0 epochs: 9 global_batch_size: 4
                                    data { dir: '$1' }
                                    model { layers { flatten {} } layers { linear { out: 10 } } }
                                    checkpoint { dir: '$1/checkpoints' every_steps: 100 $3 } $2 })",
                         steps, directory_, more, saves),
        worlds_.joined.mutable_spec()));
    return RunRank(environment_, Clock::System());
  }

  static std::string NewDirectory() {
    std::string path = ::testing::TempDir() + "rank_program_XXXXXX";
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    return path;
  }

  const std::string directory_ = NewDirectory();
  PlayedWorlds worlds_;
  FakeCheckpoints checkpoints_;
  ClosedStore store_;
  std::unique_ptr<grpc::Server> server_;
  Environment environment_;
};

TEST_F(RankProgramTest, TheJobsOwnCheckpointsComeBeforeThoseThatItWasToResume) {
  ASSERT_EQ(*Run(2), TrainingEnd::kDone);
  for (const v1::Checkpoint& one : checkpoints_.on_record) *worlds_.joined.add_checkpoints() = one;
  ASSERT_EQ(worlds_.joined.checkpoints_size(), 1);
  std::filesystem::remove(environment_.metrics_file);
  const auto end = Run(5, "resume { job: 3 from { path: '/nowhere' sha256: 'none' } }");
  ASSERT_TRUE(end.ok()) << end.status();
  std::vector<int> resumed_at;
  for (const v1::Metric& metric : ReadMetrics(environment_.metrics_file))
    if (metric.event() == "resume") resumed_at.push_back(metric.step());
  EXPECT_THAT(resumed_at, ElementsAre(2));
  EXPECT_THAT(worlds_.insisted(), IsEmpty());
}

// The first of nine epochs is the only improvement, and the third the last one. The weights of so
// high a learning rate are not the best.
TEST_F(RankProgramTest, ATrainingThatStopsEarlyReportsWhyAndLeavesTheBestWeights) {
  const std::string weights = directory_ + "/weights.safetensors";
  const std::string more =
      "evaluate_every: 1 early_stop { patience: 2 min_delta: 1e6 metric: 'loss' } "
      "optimizer { sgd { learning_rate: 100 } } ";
  const auto output = [&](bool best) {
    return absl::Substitute("output { weights: '$0' best: $1 }", weights, best ? "true" : "false");
  };
  ASSERT_EQ(*Run(0, more + output(false)), TrainingEnd::kDone);
  const std::string hash_of_last = checkpoints_.weights.sha256();
  EXPECT_EQ(checkpoints_.on_record.front().step(), 6);
  EXPECT_THAT(worlds_.stopped_early(),
              ::testing::HasSubstr("loss of the test set has not improved on "));
  checkpoints_.on_record.clear();
  environment_.generation = Generation(2);
  ASSERT_EQ(*Run(0, more + output(true), "best { metric: 'loss' }"), TrainingEnd::kDone);
  int64_t best = 0;
  for (const v1::Checkpoint& one : checkpoints_.on_record) {
    if (!one.best().empty()) best = one.step();
  }
  EXPECT_GT(best, 0);
  EXPECT_LT(best, 6);
  EXPECT_NE(checkpoints_.weights.sha256(), hash_of_last);
}

TEST_F(RankProgramTest, ARankThatHasLostItsPeersDoesNotInsistOnceItsWorldIsClosed) {
  environment_.world_size = 2;
  const auto end = Run(2);
  EXPECT_EQ(end.status().code(), absl::StatusCode::kAborted) << end.status();
  EXPECT_THAT(worlds_.insisted(), ElementsAre(false));
}

}  // namespace
}  // namespace dp::trainer
