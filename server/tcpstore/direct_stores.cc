#include "server/tcpstore/direct_stores.h"

#include <pthread.h>

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/program/log.h"
#include "base/random.h"
#include "server/tcpstore/driver_store_link.h"
#include "store/relay/store_relay.h"
#include "store/wire/allowed_hosts.h"
#include "store/wire/server.h"

namespace dp::server {
namespace {

// The list is requested again after this time; nothing depends on its length.
constexpr absl::Duration kLook = absl::Minutes(10);
// How soon to ask again if the driver's queue was full.
constexpr absl::Duration kAskAgain = absl::Seconds(1);

}  // namespace

struct DirectStores::Endpoint {
  wire::AllowedHosts hosts;
  std::unique_ptr<DriverStoreLink> link = nullptr;
  std::unique_ptr<StoreRelay> relay = nullptr;
  bool warned = false;                             // that it is not served
  std::unique_ptr<wire::Server> server = nullptr;  // last: it uses the others. Null: not served yet
};

struct DirectStores::News {
  std::vector<Wanted> wanted;
  std::map<Wanted, std::vector<std::string>> hosts;  // of those that are new
  std::map<int, FileDescriptor> listeners;           // by port; those that were kept
  bool refused = false;  // `wanted` is unknown: the driver has too many waits
};

// Shared by the driver's thread and this one; outlives a question that is asked late.
struct DirectStores::Outlook {
  // Whether each job that holds a port is direct. For the driver's thread only.
  std::map<JobId, bool> direct;
  BoundedQueue<News> inbox{16};

  std::vector<Wanted> Look(const View& view) {
    std::vector<Wanted> wanted;
    std::map<JobId, bool> now;
    for (const core::Job* job : view.coordinator.jobs()) {
      if (job->store_port == 0) continue;
      const auto it = direct.find(job->id);
      now[job->id] = it == direct.end() ? IsDirect(*job) : it->second;
      if (now[job->id]) wanted.push_back({job->id, job->generation, job->store_port});
    }
    direct = std::move(now);
    return wanted;
  }
  // A job of thousands of ranks is walked once only, when its generation is new.
  static std::map<Wanted, std::vector<std::string>> HostsOfNew(const std::vector<Wanted>& wanted,
                                                               const std::vector<Wanted>& known,
                                                               const View& view) {
    std::map<Wanted, std::vector<std::string>> hosts;
    for (const Wanted& each : wanted) {
      if (std::find(known.begin(), known.end(), each) != known.end()) continue;
      std::set<std::string> addresses;
      for (const core::Rank& rank : view.coordinator.job(each.job)->ranks) {
        addresses.insert(rank.address);
      }
      hosts[each].assign(addresses.begin(), addresses.end());
    }
    return hosts;
  }
  // The list holds every job that was placed by now, so the other ports are dropped.
  static std::map<int, FileDescriptor> TakeKept(const std::vector<Wanted>& wanted,
                                                DirectPorts& ports) {
    std::map<int, FileDescriptor> listeners;
    for (const Wanted& each : wanted) {
      FileDescriptor listener = ports.Take(each.port);
      if (listener.valid()) listeners[each.port] = std::move(listener);
    }
    ports.DropOthers();
    return listeners;
  }
};

DirectStores::DirectStores(Driver& driver, DirectPorts& ports, StoreCallers& callers,
                           const KeyValueLimits& limits, wire::MessageMemory& memory,
                           absl::Duration try_again)
    : driver_(driver),
      ports_(ports),
      callers_(callers),
      limits_(wire::Limits::For(limits)),
      memory_(memory),
      try_again_(try_again),
      random_state_(EntropySeed()),
      ticket_(driver.NewTicket()),
      outlook_(std::make_shared<Outlook>()),
      thread_([this] { Run(); }) {}

DirectStores::~DirectStores() {
  outlook_->inbox.Close();
  driver_.Cancel(ticket_);
}

void DirectStores::Run() {
  pthread_setname_np(pthread_self(), "direct-stores");
  std::vector<Wanted> served;
  bool asked = AskForOtherThan(served);
  while (!outlook_->inbox.closed()) {
    const auto look = asked ? absl::InfiniteDuration() : kAskAgain;
    std::vector<News> inbox = outlook_->inbox.DrainFor(some_wait() ? try_again_ : look);
    const bool refused = !inbox.empty() && inbox.back().refused;
    for (News& news : inbox) {
      if (news.refused) continue;
      served = news.wanted;
      Serve(std::move(news));
    }
    for (auto& [wanted, endpoint] : endpoints_) Listen(wanted, {}, *endpoint);
    // Only one question is in flight.
    if (refused || !inbox.empty() || !asked) asked = !refused && AskForOtherThan(served);
  }
}

bool DirectStores::some_wait() const {
  return std::any_of(endpoints_.begin(), endpoints_.end(),
                     [](const auto& each) { return each.second->server == nullptr; });
}

bool DirectStores::AskForOtherThan(std::vector<Wanted> known) {
  const auto question = [outlook = outlook_, &ports = ports_, known = std::move(known)](
                            Waiters::Wake wake, const View& view) {
    if (wake == Waiters::Wake::kCancelled || wake == Waiters::Wake::kStopping) return true;
    News news{.refused = wake == Waiters::Wake::kRefused};
    if (!news.refused) news.wanted = outlook->Look(view);
    const bool tell = news.wanted != known || wake != Waiters::Wake::kChanged;
    if (tell && !news.refused) news.hosts = Outlook::HostsOfNew(news.wanted, known, view);
    if (tell && !news.refused) news.listeners = Outlook::TakeKept(news.wanted, ports);
    if (tell) (void)outlook->inbox.TryPush(news);  // rejected only during shutdown
    return tell;
  };
  const absl::Status queued =
      driver_.Wait(ticket_, {{.kind = core::Topic::Kind::kJobList}}, kLook, question);
  if (!queued.ok()) Log(Severity::kWarning, "direct_stores_wait", {{"reason", queued.ToString()}});
  return queued.ok();
}

void DirectStores::Serve(News news) {
  std::erase_if(endpoints_, [&](const auto& served) {
    const bool over =
        std::find(news.wanted.begin(), news.wanted.end(), served.first) == news.wanted.end();
    if (over) Log(Severity::kInfo, "store_closed", {{"job", served.first.job.value()}});
    return over;
  });
  for (const Wanted& each : news.wanted) {
    const auto [it, is_new] = endpoints_.try_emplace(each);
    if (!is_new) continue;
    it->second = Open(each, news.hosts[each]);
    Listen(each, std::move(news.listeners[each.port]), *it->second);
  }
}

std::unique_ptr<DirectStores::Endpoint> DirectStores::Open(const Wanted& wanted,
                                                           const std::vector<std::string>& hosts) {
  auto endpoint = std::make_unique<Endpoint>(Endpoint{.hosts = wire::AllowedHosts(hosts)});
  endpoint->link = std::make_unique<DriverStoreLink>(
      driver_, callers_,
      DriverStoreLink::Options{.job = wanted.job,
                               .generation = wanted.generation,
                               .incarnation = NextRandom(random_state_) | 1});
  endpoint->relay = std::make_unique<StoreRelay>(
      *endpoint->link, StoreRelayOptions{.job = wanted.job, .seed = NextRandom(random_state_)});
  return endpoint;
}

void DirectStores::Listen(const Wanted& wanted, FileDescriptor listener, Endpoint& endpoint) {
  if (endpoint.server != nullptr) return;
  const wire::ServerOptions at{
      .host = ports_.address(),
      .port = static_cast<uint16_t>(wanted.port),
      .requests = {.limits = limits_},
      .memory = &memory_,
      .admit = [&hosts = endpoint.hosts](int socket) { return hosts.Check(socket); }};
  auto server = listener.valid() ? wire::Server::StartOn(std::move(listener), *endpoint.relay, at)
                                 : wire::Server::Start(*endpoint.relay, at);
  const std::string address = absl::StrCat(at.host, ":", wanted.port);
  if (server.ok()) {
    endpoint.server = *std::move(server);
    Log(Severity::kInfo, "store_served", {{"job", wanted.job.value()}, {"address", address}});
  } else if (!std::exchange(endpoint.warned, true)) {
    Log(Severity::kError, "store_not_served",
        {{"job", wanted.job.value()},
         {"address", address},
         {"reason", server.status().ToString()},
         {"remedy", "stop the program that has the port; it is tried again until then"}});
  }
}

}  // namespace dp::server
