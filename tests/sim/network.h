#pragma once

#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/retry_policy.h"
#include "tests/sim/environment.h"
#include "tests/sim/service.h"

namespace dp::sim {

// A host, for partitions; the coordinator has one of its own.
using Node = int;

inline const client::RetryOptions kForever = {.deadline = absl::InfiniteDuration()};

// How messages are lost, duplicated and delayed.
struct Weather {
  double drop = 0;
  double duplicate = 0;
  double slow = 0;  // takes up to slow_max, not delay_max; others overtake it
  absl::Duration delay_max = absl::Milliseconds(5);
  absl::Duration slow_max = absl::Seconds(4);
};

// Carries calls to the coordinator and their answers, badly. Every call is answered once, by its
// deadline at the latest. Its request and its answer may arrive late, twice, or not at all.
class Network {
 public:
  Network(Environment& environment, Service& service) : env_(environment), service_(service) {}

  void SetWeather(const Weather& weather) { weather_ = weather; }
  void CutOff(Node node) { cut_off_.insert(node); }
  void Heal(Node node) { cut_off_.erase(node); }
  void HealAll() { cut_off_.clear(); }

  template <typename T>
  void Call(Node from, absl::Duration deadline, std::function<void(Service&, Reply<T>)> serve,
            Reply<T> done) {
    // The first answer counts.
    auto pending = std::make_shared<Reply<T>>(std::move(done));
    const Reply<T> finish = [pending](absl::StatusOr<T> answer) {
      if (Reply<T> reply = std::exchange(*pending, nullptr)) reply(std::move(answer));
    };
    const Reply<T> answer = [this, from, finish](absl::StatusOr<T> value) {
      Carry(from, [finish, value = std::move(value)] { finish(value); });
    };
    env_.events.After(deadline, [finish] { finish(absl::DeadlineExceededError("no answer")); });
    Carry(from, [this, serve = std::move(serve), answer] {
      service_.up() ? serve(service_, answer) : answer(absl::UnavailableError("refused"));
    });
  }

 private:
  // One message between the node and the coordinator, in either direction.
  void Carry(Node node, EventQueue::Event arrive);

  Environment& env_;
  Service& service_;
  Weather weather_;
  std::set<Node> cut_off_;
};

// client/retry_loop.h without a waiting thread: the same policy decides.
template <typename T>
void Retry(Environment& env, const client::RetryOptions& options,
           std::function<void(absl::Duration deadline, Reply<T>)> attempt, Reply<T> done) {
  struct Loop : std::enable_shared_from_this<Loop> {
    Loop(Environment& e, const client::RetryOptions& options)
        : env(e), policy(options, e.dice.Seed()), begin(e.events.now()) {}
    void Try() {
      attempt(policy.AttemptDeadline(env.events.now() - begin),
              [self = this->shared_from_this()](absl::StatusOr<T> result) {
                self->Take(std::move(result));
              });
    }
    void Take(absl::StatusOr<T> result) {
      if (result.ok()) return done(std::move(result));
      const auto wait = policy.Next(result.status(), env.events.now() - begin);
      if (!wait) return done(std::move(result));
      env.events.After(*wait, [self = this->shared_from_this()] { self->Try(); });
    }
    Environment& env;
    client::RetryPolicy policy;
    const absl::Time begin;
    std::function<void(absl::Duration, Reply<T>)> attempt;
    Reply<T> done;
  };
  auto loop = std::make_shared<Loop>(env, options);
  loop->attempt = std::move(attempt);
  loop->done = std::move(done);
  loop->Try();
}

}  // namespace dp::sim
