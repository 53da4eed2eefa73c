// Two relays and the coordinator's store of one generation, under lost, late and repeated messages
// and restarts. Every operation takes effect exactly once, and every wait ends.

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "server/core/generation_store.h"
#include "store/relay/relay_ledger.h"

namespace dp::sim {
namespace {

constexpr int kHosts = 2;
constexpr int kCallers = 4;     // on each host
constexpr int kStages = 6;      // of a round
constexpr int kRounds = 12;     // of each caller
constexpr int kSteps = 100000;  // more than any seed needs
// The size of a value: the answer to a batch keeps one such value, but not two.
constexpr size_t kBook = core::GenerationStore::kKeptReadBytesMax * 2 / 3;

// A batch in flight from a relay to the coordinator, and its answer.
struct Request {
  int attempt = 0;
  RelayLedger::Batch batch;
};
struct Response {
  int attempt = 0;
  absl::StatusOr<core::GroupResults> results;
};

// The result of a parked wait, in flight to the relay.
struct Found {
  uint64_t caller = 0;
  std::vector<StoreResult> results;
};

struct Host {
  uint64_t incarnation = 0;
  RelayLedger ledger{{.operations = 6, .bytes = 200}};
  int attempt = 0;       // the latest one
  bool waiting = false;  // for the answer to the latest
  std::vector<Request> requests;
  std::vector<Response> responses;
  // The stream of waits: those that the coordinator has parked, and answers in flight.
  std::map<uint64_t, std::vector<StoreOperation>> parked;
  std::vector<Found> found;
};

// In each round it adds, pushes, reads, meets the other callers and pops.
struct Caller {
  int round = 0;
  int stage = 0;
  bool busy = false;
};

class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {
    for (int i = 0; i < kHosts; ++i) hosts_[i].incarnation = 100 + i;
    store_.Apply({JobId(1), Generation(1), 1, 1, {StoreSet{"book", std::string(kBook, 'x')}}})
        .value();
  }

  // Returns the problem; empty if there is none.
  std::string Run() {
    for (int step = 0; step < kSteps; ++step) {
      if (AllDone()) return Verdict();
      Step(hosts_[Pick(kHosts)]);
    }
    return "it did not come to an end";
  }

 private:
  uint64_t Pick(uint64_t count) { return NextRandom(random_) % count; }
  int IndexOf(const Host& host) const { return static_cast<int>(&host - hosts_); }

  void Step(Host& host) {
    switch (Pick(8)) {
      case 0:
        return Call(host, Pick(kCallers));
      case 1:
        return Send(host);
      case 2:
      case 3:
        return Receive(host);
      case 4:
      case 5:
        return Answer(host);
      case 6:
        return Pick(2) == 0 ? WakeOrTimeOut(host) : Hear(host);
      default:
        if (Pick(20) == 0) return Restart();
        if (Pick(20) == 0) LoseStream(host);
    }
  }

  // An idle caller asks for the next operation of its round.
  void Call(Host& host, int index) {
    Caller& caller = callers_[IndexOf(host)][index];
    if (caller.busy || caller.round == kRounds) return;
    caller.busy = true;
    const std::string met = absl::StrCat("met", caller.round);
    switch (caller.stage) {
      case 0:
        return host.ledger.Execute(index, {StoreAdd{"n", 1}});
      case 1:
        return host.ledger.Execute(index, {StoreQueuePush{"q", absl::StrCat(++pushed_)}});
      case 2:
        return host.ledger.Execute(index, {StoreAppend{"text", "x"}, StoreAdd{met, 1}});
      case 3:
        return host.ledger.Execute(index, {StoreGet{"book"}});
      case 4:
        return host.ledger.Await(index, {StoreReached{met, kHosts * kCallers}});
      default:
        return host.ledger.Execute(index, {StoreQueuePop{"q"}});
    }
  }

  // Sends the batch, sometimes again while its answer is outstanding.
  void Send(Host& host) {
    if (host.waiting && Pick(4) != 0) return;
    const RelayLedger::Batch* batch = host.ledger.batch();
    if (batch == nullptr) return;
    host.waiting = true;
    host.requests.push_back({++host.attempt, *batch});
  }

  // The coordinator takes one of the requests in flight, not always the oldest.
  void Receive(Host& host) {
    if (host.requests.empty()) return;
    const Request request = Take(host.requests);
    const auto client = request.batch.sequence == 0 ? 0 : host.incarnation;
    const auto applied = store_.Apply({JobId(1), Generation(1), client, request.batch.sequence,
                                       request.batch.operations, request.batch.groups});
    if (Pick(4) == 0) return;  // the answer is lost
    if (applied.ok()) {
      host.responses.push_back({request.attempt, applied->answer});
    } else {
      host.responses.push_back({request.attempt, applied.status()});
    }
  }

  void Answer(Host& host) {
    if (host.responses.empty()) return;
    const Response response = Take(host.responses);
    if (!host.waiting || response.attempt != host.attempt) return;  // of a call that was given up
    if (!response.results.ok()) {
      problem_ = response.results.status().ToString();
      return;
    }
    host.waiting = false;
    RelayLedger::Reply reply{response.results->results, {}};
    const auto answers = host.ledger.OnReply(std::move(reply));
    if (!answers.ok()) problem_ = answers.status().ToString();
    if (!answers.ok()) return;
    for (const RelayLedger::Answer& answer : *answers) Told(host, answer);
    for (auto& parking : host.ledger.TakeParkings()) host.parked[parking.caller] = parking.reads;
  }

  // Answers a parked wait if possible; otherwise sometimes ends the wait without an answer.
  void WakeOrTimeOut(Host& host) {
    if (host.parked.empty()) return;
    const auto it = std::next(host.parked.begin(), Pick(host.parked.size()));
    const auto [caller, reads] = *it;
    const bool found = store_.values().Missing(reads).empty();
    if (!found && Pick(4) != 0) return;
    host.parked.erase(it);
    if (!found) return host.ledger.OnUnparked(caller);
    host.found.push_back({caller, *store_.values().Read(reads)});
  }

  // One of the answers to parked waits arrives, in any order.
  void Hear(Host& host) {
    if (host.found.empty()) return;
    Found found = Take(host.found);
    const auto answer = host.ledger.OnFound(found.caller, std::move(found.results));
    if (answer.has_value()) Told(host, *answer);
  }

  // Every wait on the stream ends, even if its answer was in flight.
  void LoseStream(Host& host) {
    for (const auto& [caller, reads] : std::exchange(host.parked, {})) {
      host.ledger.OnUnparked(caller);
    }
    for (const Found& lost : std::exchange(host.found, {})) host.ledger.OnUnparked(lost.caller);
  }

  // Every connection is lost, with all that was in flight. Applied batches stay.
  void Restart() {
    for (Host& host : hosts_) {
      host.requests.clear();
      host.responses.clear();
      host.waiting = false;
      LoseStream(host);
    }
  }

  void Told(const Host& host, const RelayLedger::Answer& answer) {
    Caller& caller = callers_[IndexOf(host)][answer.caller];
    if (!caller.busy || !answer.results.ok()) problem_ = "an answer that nobody asked for";
    const StoreResult& result = answer.results->front();
    caller.busy = false;
    if (caller.stage == 0 && !sums_.insert(result.number).second) problem_ = "a sum came twice";
    if (caller.stage == 3 && result.value.size() != kBook) problem_ = "the book is wrong";
    if (caller.stage == 5 && !popped_.insert(result.value).second) problem_ = "popped twice";
    caller.stage = (caller.stage + 1) % kStages;
    if (caller.stage == 0) ++caller.round;
  }

  bool AllDone() const {
    if (!problem_.empty()) return true;
    for (const auto& host : callers_) {
      for (const Caller& caller : host) {
        if (caller.round < kRounds) return false;
      }
    }
    return true;
  }

  std::string Verdict() const {
    constexpr size_t kTotal = kHosts * kCallers * kRounds;
    if (!problem_.empty()) return problem_;
    if (*store_.values().Find("n") != absl::StrCat(kTotal)) return "the counter is wrong";
    if (store_.values().Find("text")->size() != kTotal) return "the text is wrong";
    if (popped_.size() != kTotal) return "elements of the queue are lost";
    return "";
  }

  template <typename Message>
  Message Take(std::vector<Message>& messages) {
    const auto it = messages.begin() + Pick(messages.size());
    Message message = std::move(*it);
    messages.erase(it);
    return message;
  }

  uint64_t random_;
  Host hosts_[kHosts];
  Caller callers_[kHosts][kCallers];
  core::GenerationStore store_;
  int pushed_ = 0;
  std::set<int64_t> sums_;
  std::set<std::string> popped_;
  std::string problem_;
};

TEST(RelaySimulationTest, EverythingTakesEffectOnceWhateverIsLostLateOrRepeated) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    EXPECT_EQ(World(seed).Run(), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace dp::sim
