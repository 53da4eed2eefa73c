#include "worker/agent/launch/launch_environment.h"

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace dp::worker {
namespace {

using testing::Contains;
using testing::Key;
using testing::Not;
using testing::Pair;
using testing::UnorderedElementsAre;

// Rank 2 of 4: the first of two on the second of two hosts.
constexpr char kRank[] = R"(
  job: 7 generation: 1 rank: 2 world_size: 4 local_rank: 0 slot: 3
  hosts { address: "10.0.0.1" slots: [0, 1] ports: [4001, 4002] }
  hosts { address: "10.0.0.2" slots: [3, 1] ports: [5001, 5002] }
  spec { threads_per_rank: 1 command { max_restarts: 3 } })";

class LaunchEnvironmentTest : public testing::Test {
 protected:
  LaunchEnvironmentTest() {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(kRank, &rank_));
  }

  Environment Place(const std::string& contract) {
    rank_.mutable_spec()->mutable_command()->set_contract(contract);
    const auto store = EndpointAtRank0(rank_);
    EXPECT_TRUE(store.ok()) << store.status();
    return PlaceOf(rank_, host_, *store, "/state/2.error");
  }
  std::string Get(const std::string& contract, const std::string& name) {
    return Place(contract)[name];
  }

  v1::AssignedRank rank_;
  HostFacts host_{.slots = 4, .interface = "eth0"};
};

TEST_F(LaunchEnvironmentTest, ARankHasAllThatTorchrunSets) {
  EXPECT_THAT(
      Place("torchrun"),
      UnorderedElementsAre(
          Pair("RANK", "2"), Pair("WORLD_SIZE", "4"), Pair("LOCAL_RANK", "0"),
          Pair("LOCAL_WORLD_SIZE", "2"), Pair("GROUP_RANK", "1"), Pair("GROUP_WORLD_SIZE", "2"),
          Pair("ROLE_NAME", "default"), Pair("ROLE_RANK", "2"), Pair("ROLE_WORLD_SIZE", "4"),
          Pair("MASTER_ADDR", "10.0.0.1"), Pair("MASTER_PORT", "4001"),
          Pair("TORCHELASTIC_RESTART_COUNT", "0"), Pair("TORCHELASTIC_MAX_RESTARTS", "3"),
          Pair("TORCHELASTIC_RUN_ID", "dp-7"), Pair("TORCHELASTIC_USE_AGENT_STORE", "False"),
          Pair("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"),
          Pair("TORCHELASTIC_ERROR_FILE", "/state/2.error"), Pair("DP_RANK0_ADDRESS", "10.0.0.1"),
          Pair("DP_RANK0_PORT", "4001"), Pair("DP_PORT", "5001")));
}

TEST_F(LaunchEnvironmentTest, AStoreThatIsServedIsTheAgentsAndReplacesRank0s) {
  rank_.mutable_spec()->mutable_command()->set_contract("torchrun");
  const Environment place = PlaceOf(rank_, host_, {"127.0.0.1", 9000, /*served=*/true}, "");
  EXPECT_THAT(place, Contains(Pair("TORCHELASTIC_USE_AGENT_STORE", "True")));
  EXPECT_THAT(place, Contains(Pair("MASTER_ADDR", "127.0.0.1")));
  EXPECT_THAT(place, Contains(Pair("MASTER_PORT", "9000")));
  EXPECT_THAT(place, Contains(Pair("DP_RANK0_PORT", "4001")));
}

TEST_F(LaunchEnvironmentTest, TheLastRankKnowsItsHost) {
  rank_.set_rank(3);
  rank_.set_local_rank(1);
  const Environment place = Place("plain");
  EXPECT_THAT(place, Contains(Pair("GROUP_RANK", "1")));
  EXPECT_THAT(place, Contains(Pair("DP_PORT", "5002")));
}

TEST_F(LaunchEnvironmentTest, PlainHasRankAndItsFriendsOnly) {
  const Environment place = Place("plain");
  EXPECT_THAT(place, Contains(Key("RANK")));
  EXPECT_THAT(place, Not(Contains(Key("TORCHELASTIC_RUN_ID"))));
  EXPECT_THAT(place, Not(Contains(Key("ROLE_RANK"))));
}

TEST_F(LaunchEnvironmentTest, TensorflowGetsItsCluster) {
  EXPECT_EQ(Get("tensorflow", "TF_CONFIG"),
            "{\"cluster\": {\"worker\": [\"10.0.0.1:4001\", \"10.0.0.1:4002\", \"10.0.0.2:5001\", "
            "\"10.0.0.2:5002\"]}, \"task\": {\"type\": \"worker\", \"index\": 2}}");
}

TEST_F(LaunchEnvironmentTest, JaxGetsItsCoordinatorAndWhatItsInitialiseReads) {
  const Environment place = Place("jax");
  EXPECT_THAT(place, Contains(Pair("JAX_COORDINATOR_ADDRESS", "10.0.0.1:4001")));
  EXPECT_THAT(place, Contains(Pair("JAX_NUM_PROCESSES", "4")));
  EXPECT_THAT(place, Contains(Pair("JAX_PROCESS_ID", "2")));
  EXPECT_THAT(place, Contains(Pair("OMPI_MCA_orte_hnp_uri", "0.0;tcp://10.0.0.1:4001")));
  EXPECT_THAT(place, Contains(Pair("OMPI_COMM_WORLD_LOCAL_RANK", "0")));
  EXPECT_THAT(place, Not(Contains(Key("JAX_LOCAL_DEVICE_IDS"))));
}

TEST_F(LaunchEnvironmentTest, MpiStyleProgramsFindRankAndSize) {
  const Environment place = Place("mpi");
  EXPECT_THAT(place, Contains(Pair("OMPI_COMM_WORLD_RANK", "2")));
  EXPECT_THAT(place, Contains(Pair("OMPI_COMM_WORLD_SIZE", "4")));
  EXPECT_THAT(place, Contains(Pair("OMPI_COMM_WORLD_LOCAL_SIZE", "2")));
  EXPECT_THAT(place, Contains(Pair("PMI_RANK", "2")));
  EXPECT_THAT(place, Contains(Pair("PMI_SIZE", "4")));
}

TEST_F(LaunchEnvironmentTest, AnIpv6AddressStandsInBracketsWhereAPortFollows) {
  rank_.mutable_hosts(0)->set_address("fd00::1");
  EXPECT_EQ(Get("jax", "JAX_COORDINATOR_ADDRESS"), "[fd00::1]:4001");
  EXPECT_EQ(Get("torchrun", "MASTER_ADDR"), "fd00::1");
}

TEST_F(LaunchEnvironmentTest, LocalRankIsTheNumberOfTheRanksOwnDevice) {
  host_.devices = {"GPU-a", "GPU-b", "GPU-c", "GPU-d"};
  EXPECT_EQ(Get("torchrun", "CUDA_VISIBLE_DEVICES"), "GPU-d,GPU-b");  // slots 3 and 1
}

TEST_F(LaunchEnvironmentTest, ATensorflowWorkerSeesOnlyItsOwnDevice) {
  host_.devices = {"GPU-a", "GPU-b", "GPU-c", "GPU-d"};
  EXPECT_EQ(Get("tensorflow", "CUDA_VISIBLE_DEVICES"), "GPU-d");
}

TEST_F(LaunchEnvironmentTest, DevicesBeyondTheSlotsAreDealtInTurn) {
  host_ = {.slots = 2, .devices = {"0", "1", "2", "3"}};
  rank_.set_slot(1);
  rank_.mutable_hosts(1)->set_slots(0, 1);
  rank_.mutable_hosts(1)->set_slots(1, 0);
  EXPECT_EQ(Get("torchrun", "CUDA_VISIBLE_DEVICES"), "1,0,3,2");
  EXPECT_EQ(Get("tensorflow", "CUDA_VISIBLE_DEVICES"), "1,3");
}

TEST_F(LaunchEnvironmentTest, ASlotWithoutADeviceSeesNone) {
  host_.devices = {"GPU-a"};
  EXPECT_EQ(Get("torchrun", "CUDA_VISIBLE_DEVICES"), "");
}

TEST_F(LaunchEnvironmentTest, AHostWithoutDevicesLeavesTheVariableAlone) {
  EXPECT_THAT(Place("torchrun"), Not(Contains(Key("CUDA_VISIBLE_DEVICES"))));
}

TEST_F(LaunchEnvironmentTest, TheInterfaceIsTheOneThatReachesTheCoordinator) {
  rank_.mutable_spec()->mutable_command()->set_contract("torchrun");
  EXPECT_THAT(
      LaunchDefaults(rank_, host_),
      UnorderedElementsAre(Pair("OMP_NUM_THREADS", "1"), Pair("PYTHONUNBUFFERED", "1"),
                           Pair("NCCL_SOCKET_IFNAME", "eth0"), Pair("GLOO_SOCKET_IFNAME", "eth0"),
                           Pair("NCCL_ASYNC_ERROR_HANDLING", "1"),
                           Pair("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")));
}

TEST_F(LaunchEnvironmentTest, RanksThatShareAHostHaveOneThreadEachWhereTheJobDoesNotSay) {
  const auto threads = [&]() -> std::string {
    const Environment defaults = LaunchDefaults(rank_, host_);
    const auto found = defaults.find("OMP_NUM_THREADS");
    return found == defaults.end() ? "not set" : found->second;
  };
  rank_.mutable_spec()->set_threads_per_rank(0);
  EXPECT_EQ(threads(), "1");
  rank_.mutable_hosts(1)->mutable_slots()->Truncate(1);
  EXPECT_EQ(threads(), "not set");
  rank_.mutable_spec()->set_threads_per_rank(6);
  EXPECT_EQ(threads(), "6");
}

TEST_F(LaunchEnvironmentTest, LaunchPutsTheLocalRankIntoTheCommandLine) {
  rank_.set_rank(3);
  rank_.set_local_rank(1);
  rank_.mutable_spec()->mutable_command()->add_argv("train.py");
  rank_.mutable_spec()->mutable_command()->add_argv("--local_rank=${local_rank}");
  const Environment place = Place("launch");
  EXPECT_THAT(place, Contains(Pair("TORCHELASTIC_RUN_ID", "dp-7")));
  EXPECT_THAT(ArgvOf(rank_), testing::ElementsAre("train.py", "--local_rank=1"));
  (void)Place("torchrun");
  EXPECT_THAT(ArgvOf(rank_), testing::ElementsAre("train.py", "--local_rank=${local_rank}"));
}

TEST_F(LaunchEnvironmentTest, WithVirtualLocalRanksEachSeesItsOwnDevicesAsTheFirstOnes) {
  rank_.mutable_spec()->mutable_command()->set_virtual_local_rank(true);
  rank_.set_rank(3);
  rank_.set_local_rank(1);
  rank_.set_slot(1);
  host_.devices = {"GPU-a", "GPU-b", "GPU-c", "GPU-d", "GPU-e", "GPU-f"};
  const Environment place = Place("torchrun");
  EXPECT_THAT(place, Contains(Pair("LOCAL_RANK", "0")));
  EXPECT_THAT(place, Contains(Pair("CUDA_VISIBLE_DEVICES", "GPU-b,GPU-f")));
}

TEST_F(LaunchEnvironmentTest, PyTorchIsToldOfADetectWithinThatTheJobHasChosen) {
  rank_.mutable_spec()->mutable_command()->set_contract("torchrun");
  const auto told = [&](int64_t seconds) {
    rank_.mutable_spec()->mutable_detect_within()->set_seconds(seconds);
    std::string text;
    for (const auto& [name, value] : LaunchDefaults(rank_, host_)) {
      if (name.find("TIMEOUT") != name.npos) absl::StrAppend(&text, name, "=", value, " ");
    }
    return text;
  };
  EXPECT_EQ(told(30), "");  // the default counts as not chosen
  EXPECT_EQ(told(5),
            "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=60 TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC=5000 ");
  EXPECT_EQ(told(90),
            "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=90 TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC=15000 ");
  EXPECT_EQ(told(3600), "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC=15000 ");
  rank_.mutable_spec()->mutable_command()->set_contract("plain");
  EXPECT_EQ(told(5), "");
}

TEST_F(LaunchEnvironmentTest, AWorkerThatKeepsNoPortIsNamedAsTheReason) {
  rank_.mutable_hosts(0)->clear_ports();
  EXPECT_EQ(EndpointAtRank0(rank_).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace dp::worker
