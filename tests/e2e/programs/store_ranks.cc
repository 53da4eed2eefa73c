#include <dp/distributed.h>
#include <dp/spawn.h>
#include <dp/store.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

// Uses the coordinator's store as its first argument says: store_ranks VERB [JOB]. Prints lines.

namespace {

int place(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? -1 : std::atoi(value);
}
const int rank = place("DP_RANK"), size = place("DP_WORLD_SIZE");

// Destroyed at exit, after main has returned.
std::vector<dp::Store> kept;

const char* name_of(dp::ErrorKind kind) {
  switch (kind) {
    case dp::ErrorKind::kInvalidArgument:
      return "invalid argument";
    case dp::ErrorKind::kUnsupported:
      return "unsupported";
    case dp::ErrorKind::kWrongState:
      return "wrong state";
    case dp::ErrorKind::kUnreachable:
      return "unreachable";
    default:
      return "another error";
  }
}

// Every rank meets every other by the verbs, and then in a group.
void meet(const char*) {
  const dp::GrpcStore store;
  store.set("from/" + std::to_string(rank), "hello of " + std::to_string(rank));
  std::vector<std::string> keys;
  for (int each = 0; each < size; ++each) keys.push_back("from/" + std::to_string(each));
  store.wait(keys);
  const std::string next = store.get(keys[static_cast<size_t>((rank + 1) % size)]);
  store.add("arrived", 1);
  const std::string leader = store.compare_set("leader", "", std::to_string(rank));
  dp::init_process_group({.store = store, .world_size = size, .rank = rank});
  std::vector<float> data = {float(rank + 1)};
  dp::all_reduce(data);
  const bool all_arrived = store.add("arrived", 0) == size, led = leader == store.get("leader");
  std::printf("rank %d heard %s, sum %.0f%s%s\n", rank, next.c_str(), data[0],
              all_arrived ? ", all arrived" : "", led ? ", one leader" : "");
  dp::destroy_process_group();
}

// Waits for a key that somebody else sets.
void wait(const char*) {
  const dp::GrpcStore store;
  std::printf("got %s\n", store.get("later").c_str());
}

// Adds until it may stop, and compares the sum with the number of its calls.
void count(const char*) {
  const dp::GrpcStore store;
  const std::vector<std::string> stop = {"stop"};
  int calls = 0;
  for (; !store.check(stop); ++calls) store.add("n", 1);
  std::printf("%s\n", store.add("n", 0) == calls ? "each counted once" : "miscounted");
}

void other(const char* job) {
  dp::GrpcStore({.job = std::strtoull(job, nullptr, 10), .generation = 1});
  std::puts("opened");
}

// A program that is no rank, with the login of its user.
void outside(const char* job) {
  const dp::GrpcStore store({.coordinator = std::getenv("STORE_AT"),
                             .job = std::strtoull(job, nullptr, 10),
                             .generation = 1,
                             .timeout = std::chrono::seconds(2)});
  store.set("later", "hello from outside");
}

// Ends by exit with a store, and in a group, as a program does that has failed.
void leave(const char*) {
  kept.push_back(dp::GrpcStore());
  dp::init_process_group({.store = kept[0], .world_size = size, .rank = rank});
  std::printf("rank %d joined\n", rank);
}

// Children open stores of their own. A process that has used gRPC has threads, and spawns none.
void spawned(const char*) {
  dp::spawn([](int) { dp::GrpcStore().add("children", 1); }, 2);
  const dp::GrpcStore store;
  std::printf("children %lld\n", static_cast<long long>(store.add("children", 0)));
  std::fflush(stdout);
  dp::spawn([](int) {}, 1);
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<void(const char*)>> verbs = {
      {"meet", meet},       {"wait", wait},   {"count", count},    {"other", other},
      {"outside", outside}, {"leave", leave}, {"spawned", spawned}};
  try {
    verbs.at(argv[1])(argc > 2 ? argv[2] : "");
  } catch (const dp::DistError& error) {
    std::printf("%s: %s\n", name_of(error.kind()), error.what());
    return 1;
  }
}
