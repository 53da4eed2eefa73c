// Simulates many daemons, ranks or clients of one coordinator in one process. tests/bench/scale
// starts the coordinator and makes rows of this program's output.
//
//    scale_load ADDRESS hosts HOSTS SLOTS       daemons of a job that has a rank for every slot
//    scale_load ADDRESS join HOSTS SLOTS        the ranks of that job, which join their world
//    scale_load ADDRESS idle HOSTS SECONDS      daemons that only beat
//    scale_load ADDRESS register HOSTS          daemons that connect and register, all at once
//    scale_load ADDRESS restart HOSTS           daemons that meet a restarted coordinator
//    scale_load ADDRESS queue JOBS              submits jobs that find no slot, then lists them
//    scale_load ADDRESS follow FOLLOWERS LINES  reads a log while a rank writes it
//    scale_load ADDRESS tcpstore CONNECTIONS    opens them to the store of one job, which needs
//                                               --tcpstore-listen
//
// Prints `at STAGE` when the reader may inspect the coordinator, then waits for a line of input.
// Prints one JSON object at the end, and exits without closing its connections one by one.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/program/descriptor_limit.h"
#include "server/rpc/testing/cluster_client.h"
#include "tests/bench/bench_credentials.h"
#include "tests/bench/scale_clients.h"
#include "tests/bench/scale_fleet.h"
#include "tests/bench/scale_join.h"

namespace dp::bench {
namespace {

double Ms(absl::Duration duration) { return absl::ToDoubleMilliseconds(duration); }

double PercentileMs(const std::vector<absl::Duration>& ascending, int percent) {
  if (ascending.empty()) return 0;
  return Ms(ascending[std::min(ascending.size() - 1, ascending.size() * percent / 100)]);
}

void AddBeats(const std::vector<absl::Duration>& beats, Figures* figures) {
  figures->emplace_back("beats", beats.size());
  figures->emplace_back("beat_p50_ms", PercentileMs(beats, 50));
  figures->emplace_back("beat_p99_ms", PercentileMs(beats, 99));
  figures->emplace_back("beat_max_ms", PercentileMs(beats, 100));
}

uint64_t OnlyJob(const std::string& address) {
  server::ClusterClient client(address, CredentialsFor(address).channel());
  const auto listed = client.Call(client.jobs(), &v1::Jobs::Stub::List, v1::ListJobsRequest());
  DP_CHECK(listed.ok() && listed->jobs_size() == 1);
  return listed->jobs(0).id();
}

int LostWorkers(const std::string& address) {
  server::ClusterClient client(address, CredentialsFor(address).channel());
  const auto listed =
      client.Call(client.workers(), &v1::Workers::Stub::List, v1::ListWorkersRequest());
  DP_CHECK(listed.ok());
  return std::count_if(listed->workers().begin(), listed->workers().end(),
                       [](const auto& worker) { return worker.state() == v1::WORKER_STATE_LOST; });
}

// The reader of `at assigned` lets the ranks join, and answers with the times of JoinFigures.
Figures HostsFigures(const std::string& address, int hosts, int slots) {
  Fleet& fleet = *new Fleet(address, hosts, slots);
  Stage("start");
  fleet.Register();
  server::ClusterClient client(address, CredentialsFor(address).channel());
  DP_CHECK(client.Submit(server::ClusterClient::AJob("bench", hosts * slots), "bench").ok());
  fleet.AwaitAssigned(slots);
  fleet.ReportStarted();
  const std::pair<std::string, std::string> times = absl::StrSplit(Stage("assigned"), ' ');
  int64_t began_us = 0, sealed_us = 0;
  DP_CHECK(absl::SimpleAtoi(times.first, &began_us) && absl::SimpleAtoi(times.second, &sealed_us));
  Figures figures;
  AddBeats(fleet.BeatsDue(absl::FromUnixMicros(began_us), absl::FromUnixMicros(sealed_us)),
           &figures);
  figures.emplace_back("lost", LostWorkers(address));
  return figures;
}

Figures JoinFigures(const std::string& address, int hosts, int slots) {
  Assembly assembly(address, OnlyJob(address), hosts, slots);
  assembly.Connect();
  Stage("connected");
  const absl::Time began = absl::Now();
  assembly.Join();
  const absl::Time sealed = absl::Now();
  Figures figures = {{"seconds", absl::ToDoubleSeconds(sealed - began)},
                     {"began_unix_us", absl::ToUnixMicros(began)},
                     {"sealed_unix_us", absl::ToUnixMicros(sealed)},
                     {"bytes", static_cast<double>(assembly.answer_bytes())},
                     {"refused", assembly.refused()}};
  Stage("sealed");
  return figures;
}

Figures IdleFigures(const std::string& address, int hosts, int seconds) {
  Fleet& fleet = *new Fleet(address, hosts, 8);
  Stage("start");
  fleet.Register();
  fleet.AwaitAssigned(0);
  Stage("idle");
  const absl::Time began = absl::Now(), ended = began + absl::Seconds(seconds);
  fleet.timer().WaitUntil(ended);  // the timer that sends the heartbeats
  Stage("measured");
  Figures figures;
  AddBeats(fleet.BeatsDue(began, ended), &figures);
  figures.emplace_back("lost", LostWorkers(address));
  return figures;
}

// Each daemon has a connection of its own, which it opens first (cold) or has open (warm).
Figures RegisterFigures(const std::string& address, int hosts) {
  const auto register_all = [&](Fleet& fleet) {
    const absl::Time began = absl::Now();
    fleet.Register();
    return absl::ToDoubleSeconds(absl::Now() - began);
  };
  Fleet& fleet = *new Fleet(address, hosts, 1);
  const double cold = register_all(fleet);
  return {{"cold_seconds", cold}, {"warm_seconds", register_all(fleet)}};
}

// The reader of `at up` kills the coordinator and restarts it at the same address. The time counts
// from the kill.
Figures RestartFigures(const std::string& address, int hosts) {
  Fleet& fleet = *new Fleet(address, hosts, 8);
  fleet.Register();
  const absl::Time began = absl::Now();
  Stage("up");
  fleet.AwaitRegistered(2);
  Figures figures = {{"seconds", absl::ToDoubleSeconds(absl::Now() - began)}};
  figures.emplace_back("lost", LostWorkers(address) + fleet.refused_beats());
  return figures;
}

int Number(const std::vector<std::string>& words, size_t at) {
  int value = 0;
  return at < words.size() && absl::SimpleAtoi(words[at], &value) && value > 0 ? value : 0;
}

int Main(const std::vector<std::string>& words) {
  const std::string verb = words.size() < 2 ? "" : words[1];
  const int first = Number(words, 2), second = Number(words, 3);
  Figures figures;
  if (verb == "hosts" && first && second) {
    figures = HostsFigures(words[0], first, second);
  } else if (verb == "join" && first && second) {
    figures = JoinFigures(words[0], first, second);
  } else if (verb == "idle" && first && second) {
    figures = IdleFigures(words[0], first, second);
  } else if (verb == "register" && first) {
    figures = RegisterFigures(words[0], first);
  } else if (verb == "restart" && first) {
    figures = RestartFigures(words[0], first);
  } else if (verb == "queue" && first) {
    figures = QueueFigures(words[0], first);
  } else if (verb == "follow" && first && second) {
    figures = FollowFigures(words[0], first, second);
  } else if (verb == "tcpstore" && first) {
    const auto measured = StoreFigures(words[0], first);
    if (!measured.ok()) {
      std::fprintf(stderr, "scale_load: %s\n", measured.status().ToString().c_str());
      return 1;
    }
    figures = *measured;
  } else {
    std::fprintf(
        stderr,
        "usage: scale_load ADDRESS hosts|join|idle|register|restart|queue|follow|tcpstore ...\n");
    return 2;
  }
  std::printf("{%s}\n", absl::StrJoin(figures, ", ", [](std::string* out, const auto& figure) {
                          absl::StrAppendFormat(out, "\"%s\": %.17g", figure.first, figure.second);
                        }).c_str());
  std::fflush(stdout);
  _exit(0);
}

}  // namespace
}  // namespace dp::bench

int main(int argc, char** argv) {
  dp::RaiseDescriptorLimit();
  return dp::bench::Main({argv + 1, argv + argc});
}
