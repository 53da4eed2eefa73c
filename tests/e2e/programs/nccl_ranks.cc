// A program of a user whose ranks have a GPU each. In tests the GPUs' memory is the host's. The
// arguments are the init method, the world size, the rank, what to do, and a device if it is given.
#include <dp/ddp.h>
#include <dp/distributed.h>
#include <dp/sync_batch_norm.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace {

std::span<float> OnGpu(const std::vector<float>& values) {
  const std::span<float> memory = dp::allocate<float>(values.size());
  std::copy(values.begin(), values.end(), memory.begin());
  return memory;
}

void Print(const char* verb, std::span<const float> values) {
  std::printf("%s", verb);
  for (const float value : values) std::printf(" %g", static_cast<double>(value));
  std::puts("");
}

// Each verb once. Barriers make the results of GPU memory the host's.
void Verbs() {
  const int rank = dp::get_rank();
  const float mine = static_cast<float>(rank + 1);
  std::printf("%s\n", dp::get_backend().c_str());
  const auto data = OnGpu({mine, 3}), part = OnGpu({0}), both = OnGpu({0, 0});
  const std::span<float> none;
  const auto print = [](const char* verb, std::span<const float> values) {
    dp::barrier();
    Print(verb, values);
  };
  dp::all_reduce(data, dp::ReduceOp::kAvg);
  print("all_reduce", data);
  dp::broadcast(data, 1);
  data[0] = mine;
  dp::reduce(data, 1, dp::ReduceOp::kMax);
  print("reduce", data);
  data[0] = mine;
  dp::all_gather(both, data.first(1));
  print("all_gather", both);
  dp::reduce_scatter(part, both);
  print("reduce_scatter", part);
  dp::gather(rank == 0 ? both : none, part, 0);
  print("gather", both);
  part[0] = 0;
  dp::scatter(part, rank == 0 ? both : none, 0);
  print("scatter", part);
  data[0] = mine;
  data[1] = 10 * mine;
  dp::all_to_all(both, data);
  print("all_to_all", both);
  // Both directions at once, while rank 0 is in a collective.
  std::optional<dp::Work> sum;
  if (rank == 0) sum = dp::all_reduce_async(part);
  dp::Work sent = dp::isend(data, 1 - rank, 4), received = dp::irecv(both, 1 - rank, 4);
  received.wait();
  sent.wait();
  if (rank == 1) dp::all_reduce(part);
  if (sum) sum->wait();
  print("messages", both);
  dp::monitored_barrier();
  std::vector<float> host = {mine};
  dp::all_reduce(host);
  Print("host", host);
  const std::vector<int> all = {1, 0};
  dp::all_reduce(host, dp::ReduceOp::kSum, dp::new_group(all));
  Print("new_group", host);
}

// A model of two weights on the GPU, whose gradient is the rank's number plus one.
class Weights : public dp::Module {
 public:
  std::vector<dp::Parameter> parameters() override { return {{"weight", {2}, values, gradient}}; }
  bool move_gradient(size_t, dp::MutableElements memory) override {
    gradient = {static_cast<float*>(memory.data), memory.count};
    return true;
  }

  std::span<float> values = OnGpu({static_cast<float>(dp::get_rank()), 7});
  std::span<float> gradient = OnGpu({0, 0});
};

void Backward(dp::DistributedDataParallel& ddp, Weights& model) {
  ddp.zero_grad();
  ddp.begin_forward();
  dp::barrier();  // the GPU is at rest, so the host may stand in for a kernel
  for (float& value : model.gradient) value += static_cast<float>(dp::get_rank() + 1);
  ddp.gradient_ready(0);
  ddp.finish_backward();
  dp::barrier();
}

// Calls that need kernels of the library, after some that do not.
void Replicas() {
  Weights model;
  dp::DistributedDataParallel ddp(model, {.device_ids = {"cuda"}});
  dp::barrier();
  Print("values", model.values);
  Backward(ddp, model);
  Print("mean", model.gradient);
  std::printf("norm %.4f\n", ddp.clip_grad_norm(1));
  dp::barrier();
  std::printf("clipped %.4f\n", static_cast<double>(model.gradient[0]));

  Weights halved;
  dp::DistributedDataParallel in_halves(halved, {.reduce_type = dp::DataType::kBfloat16});
  Backward(in_halves, halved);
  Print("bfloat16", halved.gradient);

  dp::SyncBatchNorm norm(1, {.eps = 0});
  const auto in = OnGpu({static_cast<float>(2 * dp::get_rank())}), out = OnGpu({0});
  norm.forward(in, out, 1);
  dp::barrier();
  Print("normalized", out);
}

// Prints the errors of calls that NCCL cannot serve.
void Rejects() {
  std::vector<float> host(2);
  const auto say = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const dp::DistError& error) {
      std::printf("%d %s\n", static_cast<int>(error.kind()), error.what());
    }
  };
  say([&] { dp::reduce(host, 0); });
  say([&] { dp::send(host, 1 - dp::get_rank()); });
  dp::barrier();
  const auto data = OnGpu({1, 2});
  if (dp::get_rank() == 0) say([&] { dp::send(data, 1); });
  if (dp::get_rank() == 1) say([&] { dp::recv(data.first(1), 0); });
}

// Rank 1 dies, and rank 0 waits for its message.
void Lost() {
  const auto data = OnGpu({1});
  if (dp::get_rank() == 0) dp::recv(data, 1);
  if (dp::get_rank() == 1) std::_Exit(0);
}

// Rank 1 is late for good. A wait that blocks has the error itself, else a later call.
void Late() {
  dp::barrier();
  const auto data = OnGpu({1});
  if (dp::get_rank() == 1) {
    std::getchar();
    return;
  }
  dp::Work work = dp::all_reduce_async(data);
  work.wait();
  std::puts("went on");
  std::fflush(stdout);
  dp::barrier();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::map<std::string, std::function<void()>> verbs = {{"verbs", Verbs},
                                                              {"replicas", Replicas},
                                                              {"rejects", Rejects},
                                                              {"late", Late},
                                                              {"lost", Lost}};
  dp::InitOptions options{
      .init_method = argv[1], .world_size = std::atoi(argv[2]), .rank = std::atoi(argv[3])};
  const std::string verb = argv[4];
  if (verb == "late") options.timeout = std::chrono::seconds(2);
  if (argc > 5) {
    options.device = std::atoi(argv[5]);
  } else {
    options.backend = "NCCL";
  }
  dp::init_process_group(options);
  verbs.at(verb)();
  if (verb != "late") dp::destroy_process_group();
} catch (const dp::DistError& error) {
  std::printf("%d %s\n", static_cast<int>(error.kind()), error.what());
  return 1;
}
