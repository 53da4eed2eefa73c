// Puts one load on a server of the TCPStore protocol, and prints the result as a JSON object.
//
//   store_bench PORT PID set|get|add|wait CONNECTIONS SECONDS [VALUE_BYTES]
//   store_bench PORT PID fill KEYS
//   store_bench PORT PID idle CONNECTIONS
//   store_bench PORT PID gloo RANKS SECONDS_MAX
//
// PID is the server's process; CPU time and peak memory are read from its /proc. docs/benchmarks.md
// describes each load.

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "store/wire/protocol.h"
#include "tests/bench/store_load.h"

namespace dp::bench {
namespace {

using wire::Dialect;
using wire::Verb;

constexpr absl::Duration kPatience = absl::Seconds(30);
constexpr size_t kValueBytes = 64;
// Sets that are sent together when the store is filled.
constexpr size_t kFillBatch = 100;

struct Target {
  uint16_t port = 0;
  std::string pid;
};

// The CPU time of all threads, from the scheduler's statistics.
int64_t CpuNs(const Target& target) {
  int64_t total = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + target.pid + "/task")) {
    std::ifstream books(task.path() / "schedstat");
    int64_t ns = 0;
    if (books >> ns) total += ns;
  }
  return total;
}

int64_t PeakBytes(const Target& target) {
  std::ifstream status("/proc/" + target.pid + "/status");
  for (std::string word; status >> word;) {
    int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib << 10;
  }
  return 0;
}

// Resets the peak to the memory in use now.
void ResetPeak(const Target& target) { std::ofstream("/proc/" + target.pid + "/clear_refs") << 5; }

void Append(Verb verb, wire::Fields fields, std::string* out) {
  wire::AppendRequest(Dialect::kC, {verb, std::move(fields)}, out);
}

std::string KeyOf(size_t number) { return absl::StrCat("/bench/", number); }

// A set has no answer, but the ping behind it in the same segment has one.
Exchange Set(std::string key, std::string value) {
  Exchange set{.reply_bytes = 4};
  Append(Verb::kSet, {{std::move(key), std::move(value)}}, &set.request);
  Append(Verb::kPing, {{}, 1}, &set.request);
  return set;
}

Exchange Get(std::string key, size_t value_bytes) {
  Exchange get{.reply_bytes = 8 + value_bytes};
  Append(Verb::kGet, {{std::move(key)}}, &get.request);
  return get;
}

Exchange Add(std::string key) {
  Exchange add{.reply_bytes = 8};
  Append(Verb::kAdd, {{std::move(key)}, 1}, &add.request);
  return add;
}

Exchange Wait(std::string key) {
  Exchange wait{.reply_bytes = 1};
  Append(Verb::kWait, {{std::move(key)}}, &wait.request);
  return wait;
}

// Each connection runs its list once.
StoreLoad::Next Once(const std::vector<std::vector<const Exchange*>>& lists,
                     std::vector<size_t>* next) {
  next->assign(lists.size(), 0);
  return [&lists, next](size_t index) {
    size_t& place = (*next)[index];
    return place < lists[index].size() ? lists[index][place++] : nullptr;
  };
}

absl::StatusOr<std::vector<Exchange>> ExchangesOf(const std::string& verb, size_t connections,
                                                  size_t value_bytes) {
  std::vector<Exchange> exchanges;
  for (size_t i = 0; i < connections; ++i) {
    if (verb == "set") exchanges.push_back(Set(KeyOf(i), std::string(value_bytes, 'v')));
    if (verb == "get") exchanges.push_back(Get(KeyOf(i), value_bytes));
    if (verb == "add") exchanges.push_back(Add(absl::StrCat(KeyOf(i), "/n")));
    if (verb == "wait") exchanges.push_back(Wait(KeyOf(i)));
  }
  if (exchanges.empty()) return absl::InvalidArgumentError("no load is called " + verb);
  return exchanges;
}

// Every connection repeats its exchange for `duration`.
absl::Status Repeat(StoreLoad& load, const std::vector<Exchange>& exchanges,
                    absl::Duration duration) {
  const absl::Time end = absl::Now() + duration;
  return load.Run([&](size_t index) { return absl::Now() < end ? &exchanges[index] : nullptr; },
                  kPatience);
}

absl::StatusOr<std::string> Verbs(const Target& target, const std::string& verb, size_t connections,
                                  double seconds, size_t value_bytes) {
  DP_ASSIGN_OR_RETURN(auto load, StoreLoad::Open(target.port, connections));
  DP_ASSIGN_OR_RETURN(const auto sets, ExchangesOf("set", connections, value_bytes));
  DP_RETURN_IF_ERROR(Repeat(*load, sets, absl::Seconds(seconds / 10)));
  DP_ASSIGN_OR_RETURN(const auto exchanges, ExchangesOf(verb, connections, value_bytes));
  DP_RETURN_IF_ERROR(Repeat(*load, exchanges, absl::Seconds(seconds / 10)));  // warms up
  const int64_t cpu_before = CpuNs(target);
  const absl::Time began = absl::Now();
  DP_RETURN_IF_ERROR(Repeat(*load, exchanges, absl::Seconds(seconds)));
  const double took = absl::ToDoubleSeconds(absl::Now() - began);
  const auto cpu = static_cast<double>(CpuNs(target) - cpu_before);
  std::vector<int64_t> ns = load->latencies_ns();
  std::sort(ns.begin(), ns.end());
  const auto count = static_cast<double>(ns.size());
  return absl::StrCat("{\"rate\": ", count / took, ", \"p50\": ", ns[ns.size() / 2] / 1e3,
                      ", \"p99\": ", ns[ns.size() * 99 / 100] / 1e3,
                      ", \"cpu\": ", cpu / count / 1e3, "}");
}

// The growth of the peak since `before`.
std::string Growth(const Target& target, int64_t before) {
  return absl::StrCat("\"bytes\": ", PeakBytes(target) - before);
}

absl::StatusOr<std::string> Fill(const Target& target, size_t keys) {
  DP_ASSIGN_OR_RETURN(auto load, StoreLoad::Open(target.port, 1));
  std::vector<Exchange> batches;
  for (size_t key = 0; key < keys;) {
    Exchange& batch = batches.emplace_back(Exchange{.reply_bytes = 4});
    for (size_t i = 0; i < kFillBatch && key < keys; ++i, ++key)
      Append(Verb::kSet, {{KeyOf(key), std::string(kValueBytes, 'v')}}, &batch.request);
    Append(Verb::kPing, {{}, 1}, &batch.request);
  }
  std::vector<std::vector<const Exchange*>> lists(1);
  for (const Exchange& batch : batches) lists[0].push_back(&batch);
  ResetPeak(target);
  const int64_t before = PeakBytes(target);
  const int64_t cpu_before = CpuNs(target);
  std::vector<size_t> next;
  DP_RETURN_IF_ERROR(load->Run(Once(lists, &next), kPatience));
  const auto cpu = static_cast<double>(CpuNs(target) - cpu_before);
  return absl::StrCat("{", Growth(target, before),
                      ", \"cpu\": ", cpu / 1e3 / static_cast<double>(keys), "}");
}

absl::StatusOr<std::string> Idle(const Target& target, size_t connections) {
  ResetPeak(target);
  const int64_t before = PeakBytes(target);
  DP_ASSIGN_OR_RETURN(auto load, StoreLoad::Open(target.port, connections));
  return absl::StrCat("{", Growth(target, before), "}");
}

// The requests of PyTorch 2.14 when it connects a Gloo group. Every rank publishes its addresses;
// for each rank it waits twice, then gets that rank's addresses.
absl::StatusOr<std::string> Gloo(const Target& target, size_t ranks, double seconds_max) {
  const absl::Time began = absl::Now();
  const absl::Time end = began + absl::Seconds(seconds_max);
  DP_ASSIGN_OR_RETURN(auto load, StoreLoad::Open(target.port, ranks));
  const size_t book_bytes = 154 + 8 * ranks;
  std::vector<Exchange> sets, waits, gets;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const std::string key = absl::StrCat("/default_pg/0//cpu//0/", rank);
    sets.push_back(Set(key, std::string(book_bytes, 'a')));
    waits.push_back(Wait(key));
    gets.push_back(Get(key, book_bytes));
  }
  std::vector<size_t> place(ranks);
  DP_RETURN_IF_ERROR(load->Run(
      [&](size_t index) -> const Exchange* {
        const size_t step = place[index]++;
        if (step == 0) return &sets[index];
        if (step > 3 * ranks || absl::Now() > end) return nullptr;
        return &(step % 3 == 0 ? gets : waits)[(step - 1) / 3];
      },
      kPatience));
  const auto exchanges = static_cast<double>(load->latencies_ns().size());
  const double took = absl::ToDoubleSeconds(absl::Now() - began);
  const double whole = static_cast<double>(ranks * (3 * ranks + 1));
  return absl::StrCat("{\"seconds\": ", took, ", \"done\": ", exchanges / whole, "}");
}

absl::StatusOr<std::string> Measure(const std::vector<std::string>& args) {
  int port = 0, count = 0;
  double seconds = 0;
  size_t value_bytes = kValueBytes;
  const bool verbs = args.size() >= 5;
  if (args.size() < 4 || !absl::SimpleAtoi(args[0], &port) || !absl::SimpleAtoi(args[3], &count) ||
      (verbs && !absl::SimpleAtod(args[4], &seconds)) ||
      (args.size() > 5 && !absl::SimpleAtoi(args[5], &value_bytes)))
    return absl::InvalidArgumentError("store_bench PORT PID LOAD COUNT [SECONDS [VALUE_BYTES]]");
  const Target target{static_cast<uint16_t>(port), args[1]};
  const auto size = static_cast<size_t>(count);
  if (args[2] == "fill") return Fill(target, size);
  if (args[2] == "idle") return Idle(target, size);
  if (args[2] == "gloo") return Gloo(target, size, seconds);
  return Verbs(target, args[2], size, seconds, value_bytes);
}

// As many descriptors as the system allows.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);  // connecting reports the failure
}

}  // namespace
}  // namespace dp::bench

int main(int argc, char** argv) {
  dp::bench::RaiseDescriptorLimit();
  const auto result = dp::bench::Measure({argv + 1, argv + argc});
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
    return 1;
  }
  std::printf("%s\n", result->c_str());
  return 0;
}
