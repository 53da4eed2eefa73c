// A program of a user whose ranks have a GPU each. In tests the GPUs' memory is the host's. The
// arguments are the init method, the world size, the rank, what to do, and a device if it is given.
#include <dp/ddp.h>
#include <dp/distributed.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
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
  dp::monitored_barrier();
  std::vector<float> host = {mine};
  dp::all_reduce(host);
  Print("host", host);
  const std::vector<int> all = {1, 0};
  dp::all_reduce(host, dp::ReduceOp::kSum, dp::new_group(all));
  Print("new_group", host);
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
  const std::map<std::string, std::function<void()>> verbs = {
      {"verbs", Verbs}, {"rejects", Rejects}, {"late", Late}};
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
