#include "store/async_hash_store.h"

#include <algorithm>
#include <map>
#include <variant>

#include "store/awaited_keys.h"

namespace dp {
namespace {

// The largest answer to several reads, in bytes.
constexpr size_t kAnswerBytesMax = size_t{32} << 20;

// Whether the read can find an element of a queue.
bool TakesElements(const StoreOperation& read) {
  return std::holds_alternative<StoreCheck>(read) || std::holds_alternative<StoreQueueLength>(read);
}

// The names that an awaited read depends on.
std::vector<std::string> NamesOf(const StoreOperation& read) {
  return *AwaitedKeys(absl::MakeConstSpan(&read, 1));
}

}  // namespace

void AsyncHashStore::Execute(std::vector<StoreOperation> operations, Done done) {
  Results results;
  Answers woken;
  {
    MutexLock lock(mu_);
    if (std::all_of(operations.begin(), operations.end(), IsRead)) {
      results =
          values_.Read(operations, operations.size() > 1 ? kAnswerBytesMax : KeyValues::kAnyAnswer);
    } else if (auto applied = values_.Apply(operations); applied.ok()) {
      results = std::move(applied->results);
      if (!waits_.empty()) WakeAll(*applied, &woken);
    } else {
      results = applied.status();
    }
  }
  std::move(done)(std::move(results));
  for (auto& [tell, found] : woken) std::move(tell)(std::move(found));
}

AsyncStore::Ticket AsyncHashStore::Await(std::vector<StoreOperation> reads, Done done,
                                         const std::string& /*peer*/) {
  if (const absl::Status awaitable = AwaitedKeys(reads).status(); !awaitable.ok()) {
    std::move(done)(awaitable);
    return Ticket();
  }
  Ticket ticket;
  Results results;
  {
    MutexLock lock(mu_);
    ticket = Ticket(++last_ticket_);
    results = values_.Read(reads);
    const auto found = [](const StoreResult& result) { return result.found; };
    if (!std::all_of(results->begin(), results->end(), found)) {
      auto wait = std::make_unique<Wait>();
      for (const StoreResult& result : *results) wait->met.push_back(result.found);
      wait->unmet = static_cast<size_t>(std::count(wait->met.begin(), wait->met.end(), false));
      wait->reads = std::move(reads);
      wait->results = *std::move(results);
      wait->done = std::move(done);
      Enlist(ticket.value(), *wait);
      waits_.emplace(ticket.value(), std::move(wait));
      return ticket;
    }
  }
  std::move(done)(std::move(results));
  return ticket;
}

void AsyncHashStore::Cancel(Ticket ticket) {
  std::unique_ptr<Wait> wait;
  {
    MutexLock lock(mu_);
    wait = Remove(ticket.value());
  }
  if (wait != nullptr) std::move(wait->done)(absl::CancelledError("wait was cancelled"));
}

size_t AsyncHashStore::waiting() const {
  MutexLock lock(mu_);
  return waits_.size();
}

bool AsyncHashStore::Meet(Wait& wait, size_t read) {
  Results found = values_.Read(absl::MakeConstSpan(&wait.reads[read], 1));
  if (!found->front().found) return false;
  wait.results[read] = std::move(found->front());
  wait.met[read] = true;
  --wait.unmet;
  return true;
}

void AsyncHashStore::WakeAll(const KeyValues::Applied& applied, Answers* answers) {
  std::map<std::string, size_t> elements;  // newly entered, for each changed name
  for (const std::string& name : applied.changed) elements.emplace(name, 0);
  for (const std::string& name : applied.pushed) ++elements[name];
  for (const auto& [name, entered] : elements) {
    auto list = by_name_.find(name);
    if (list == by_name_.end()) continue;
    Places places = std::move(list->second);
    by_name_.erase(list);
    places = Wake(std::move(places), values_.Find(name) != nullptr, entered, answers);
    if (!places.empty()) by_name_[name] = std::move(places);
  }
}

AsyncHashStore::Places AsyncHashStore::Wake(Places places, bool present, size_t elements,
                                            Answers* answers) {
  Places left;
  for (const Place& place : places) {
    auto found = waits_.find(place.wait);
    if (found == waits_.end() || found->second->met[place.read]) continue;
    Wait& wait = *found->second;
    const bool takes = !present && TakesElements(wait.reads[place.read]);
    if ((takes && elements == 0) || !Meet(wait, place.read)) {
      left.push_back(place);
      continue;
    }
    if (takes) --elements;
    if (wait.unmet > 0) continue;
    std::unique_ptr<Wait> met = Remove(place.wait);
    answers->emplace_back(std::move(met->done), std::move(met->results));
  }
  return left;
}

void AsyncHashStore::Enlist(uint64_t id, const Wait& wait) {
  for (size_t read = 0; read < wait.reads.size(); ++read) {
    if (wait.met[read]) continue;
    for (const std::string& name : NamesOf(wait.reads[read])) by_name_[name].push_back({id, read});
  }
}

std::unique_ptr<AsyncHashStore::Wait> AsyncHashStore::Remove(uint64_t id) {
  auto found = waits_.find(id);
  if (found == waits_.end()) return nullptr;
  std::unique_ptr<Wait> wait = std::move(found->second);
  waits_.erase(found);
  const auto of_wait = [id](const Place& place) { return place.wait == id; };
  for (const StoreOperation& read : wait->reads) {
    for (const std::string& name : NamesOf(read)) {
      auto list = by_name_.find(name);
      if (list == by_name_.end()) continue;
      Places& places = list->second;
      places.erase(std::remove_if(places.begin(), places.end(), of_wait), places.end());
      if (places.empty()) by_name_.erase(list);
    }
  }
  return wait;
}

}  // namespace dp
