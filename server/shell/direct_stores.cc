#include "server/shell/direct_stores.h"

#include <pthread.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/random.h"
#include "base/store/relay/store_relay.h"
#include "base/store/wire/server.h"
#include "server/shell/convert_job.h"
#include "server/shell/driver_store_link.h"

namespace dp::server {
namespace {

// The list is then asked for again; nothing depends on how long that is.
constexpr absl::Duration kLook = absl::Minutes(10);
// Where the driver has too much to do to be asked.
constexpr absl::Duration kAskAgain = absl::Seconds(1);

bool IsDirect(const core::Job& job) {
  return job.store_port != 0 && ParseSpec(job.spec.payload).command().store() == "direct";
}

}  // namespace

struct DirectStores::Endpoint {
  std::unique_ptr<DriverStoreLink> link;
  std::unique_ptr<StoreRelay> relay;
  std::unique_ptr<wire::Server> server;  // last: it uses the relay. Null: it could not be served
};

struct DirectStores::News {
  std::vector<Wanted> wanted;
  bool refused = false;  // nothing is known: the driver has too many waits
};

// Between the driver's thread and this one; outlives a question that is asked late.
struct DirectStores::Outlook {
  // What the driver's thread knows of jobs that hold a port; of that thread.
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
};

bool DirectStores::CanServe(const core::Job& job, const std::string& host, int port) {
  if (ParseSpec(job.spec.payload).command().store() != "direct") return true;
  return wire::Listen(host, static_cast<uint16_t>(port)).ok();
}

DirectStores::DirectStores(Driver& driver, StoreCallers& callers, std::string host,
                           const KeyValueLimits& limits)
    : driver_(driver),
      callers_(callers),
      host_(std::move(host)),
      limits_(wire::Limits::For(limits)),
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
    const auto pause = asked ? absl::InfiniteDuration() : kAskAgain;
    const std::vector<News> news = outlook_->inbox.DrainFor(pause);
    if (!news.empty() && news.back().refused) {
      asked = false;
      continue;
    }
    if (!news.empty()) Serve(served = news.back().wanted);
    asked = AskForOtherThan(served);
  }
}

bool DirectStores::AskForOtherThan(std::vector<Wanted> known) {
  const auto question = [outlook = outlook_, known = std::move(known)](Waiters::Wake wake,
                                                                       const View& view) {
    if (wake == Waiters::Wake::kCancelled || wake == Waiters::Wake::kStopping) return true;
    News news{.refused = wake == Waiters::Wake::kRefused};
    if (!news.refused) news.wanted = outlook->Look(view);
    const bool tell = news.wanted != known || wake != Waiters::Wake::kChanged;
    if (tell) (void)outlook->inbox.TryPush(news);  // refused only when this is ending
    return tell;
  };
  const absl::Status queued =
      driver_.Wait(ticket_, {{.kind = core::Topic::Kind::kJobList}}, kLook, question);
  if (!queued.ok()) Log(Severity::kWarning, "direct_stores_wait", {{"reason", queued.ToString()}});
  return queued.ok();
}

void DirectStores::Serve(const std::vector<Wanted>& wanted) {
  std::erase_if(endpoints_, [&](const auto& served) {
    const bool over = std::find(wanted.begin(), wanted.end(), served.first) == wanted.end();
    if (over) Log(Severity::kInfo, "store_closed", {{"job", served.first.job.value()}});
    return over;
  });
  for (const Wanted& each : wanted) {
    if (!endpoints_.contains(each)) endpoints_[each] = Open(each);
  }
}

std::unique_ptr<DirectStores::Endpoint> DirectStores::Open(const Wanted& wanted) {
  auto endpoint = std::make_unique<Endpoint>();
  endpoint->link = std::make_unique<DriverStoreLink>(
      driver_, callers_,
      DriverStoreLink::Options{.job = wanted.job,
                               .generation = wanted.generation,
                               .incarnation = NextRandom(random_state_) | 1});
  endpoint->relay = std::make_unique<StoreRelay>(
      *endpoint->link, StoreRelayOptions{.job = wanted.job, .seed = NextRandom(random_state_)});
  auto server = wire::Server::Start(
      *endpoint->relay,
      {.host = host_, .port = static_cast<uint16_t>(wanted.port), .requests = {.limits = limits_}});
  const std::string address = absl::StrCat(host_, ":", wanted.port);
  if (server.ok()) {
    endpoint->server = *std::move(server);
    Log(Severity::kInfo, "store_served", {{"job", wanted.job.value()}, {"address", address}});
  } else {
    Log(Severity::kError, "store_not_served",
        {{"job", wanted.job.value()},
         {"address", address},
         {"reason", server.status().ToString()}});
  }
  return endpoint;
}

}  // namespace dp::server
