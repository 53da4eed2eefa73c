#include "store/wire/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "store/wire/translation.h"

namespace dp::wire {
namespace {

// Open requests of one connection. PyTorch's clients have one, and any number of sets, which get no
// reply.
constexpr size_t kOpenMax = 64;
// The most open requests whose replies may be as long as a value. Clients wait for such a reply
// before their next request.
constexpr size_t kValuesOpenMax = 1;
// Unsent bytes beyond which no more requests are taken. A single reply may be longer.
constexpr size_t kOutputBytes = size_t{1} << 20;
// Buffers of up to this size are kept for the next reply.
constexpr size_t kOutputBytesKept = size_t{4} << 10;

// A multi_get may name keys of terabytes altogether, and is therefore fetched in parts of about
// this many bytes. The lengths of values are unknown before the first part.
constexpr size_t kPartBytes = size_t{4} << 20;
constexpr size_t kFirstPartKeys = 16;
constexpr size_t kPartKeys = 4096;

// This bit distinguishes answers to a watch from answers to a request.
constexpr uint64_t kWatchBit = uint64_t{1} << 63;
// Stands in place of a request: memory_ has granted the claim.
constexpr uint64_t kMemoryId = kWatchBit - 1;

// The unit of the budget: a request of many short strings asks once for many of them.
constexpr size_t kMemoryUnit = size_t{4} << 10;

bool RepliesWithValue(Verb verb) {
  return verb == Verb::kGet || verb == Verb::kCompareSet || verb == Verb::kQueuePop ||
         verb == Verb::kListKeys;
}

// The bytes of the strings, counted as the parser counts them.
size_t BytesOf(const std::vector<std::string>& strings) {
  size_t bytes = 0;
  for (const std::string& string : strings) bytes += sizeof(string) + string.size();
  return bytes;
}

}  // namespace

Session::Session(uint64_t id, AsyncStore& store, const RequestOptions& options,
                 std::shared_ptr<Mailbox> mailbox, MessageMemory& memory, std::string peer)
    : id_(id),
      store_(store),
      bytes_max_(options.limits.message_bytes),
      mailbox_(std::move(mailbox)),
      memory_(memory),
      peer_(std::move(peer)),
      parser_(options),
      watches_(store, memory, [this](size_t index) { return AnswerTo(kWatchBit | index); }) {
  parser_.Allow(0);
}

Session::~Session() {
  DropWaits();
  memory_.NoteAheadGone(held_.size());
  if (starved()) memory_.Withdraw(claim_);
  memory_.Give(taken_);
}

absl::Status Session::Consume(absl::string_view bytes) {
  DP_CHECK(held_.empty());
  DP_RETURN_IF_ERROR(Take(&bytes));
  held_.assign(bytes.data(), bytes.size());
  held_at_ = 0;
  memory_.NoteAhead(held_.size());
  return absl::OkStatus();
}

absl::Status Session::Continue() {
  absl::string_view bytes = absl::string_view(held_).substr(held_at_);
  DP_RETURN_IF_ERROR(Take(&bytes));
  held_at_ = held_.size() - bytes.size();
  if (bytes.empty()) {
    memory_.NoteAheadGone(held_.size());
    std::string().swap(held_);
  }
  return absl::OkStatus();
}

absl::Status Session::Take(absl::string_view* bytes) {
  DP_CHECK(!starved());
  Request request;
  while (!full()) {
    DP_ASSIGN_OR_RETURN(const bool complete, parser_.Next(bytes, &request));
    if (complete) {
      ++requests_;
      DP_RETURN_IF_ERROR(Run(std::move(request)));
      admitted_ = 0;
      parser_.Allow(0);
      Balance();
    } else if (!parser_.starved()) {
      return absl::OkStatus();
    } else if (!Admit()) {
      break;
    }
  }
  return absl::OkStatus();
}

bool Session::Admit() {
  const auto missing = [this](size_t bytes) {
    const size_t needed = Charged(bytes_running_ + bytes);
    return needed - std::min(needed, taken_);
  };
  asked_ = {.bytes = missing(parser_.announced()), .begun = begun()};
  asked_.whole = parser_.announces_all() ? asked_.bytes : missing(bytes_max_);
  MessageMemory::Taken taken;
  if (asked_.bytes > 0) {
    taken = memory_.Take(asked_, [mailbox = mailbox_, session = id_] {
      mailbox->Send({session, kMemoryId, std::vector<StoreResult>()});
    });
  }
  claim_ = taken.waits_as;
  if (starved()) return false;
  OnMemory(taken.bytes);
  return true;
}

void Session::OnMemory(size_t bytes) {
  taken_ += bytes;
  claim_ = 0;
  admitted_ = bytes > asked_.bytes ? bytes_max_ : parser_.announced();
  parser_.Allow(admitted_);
  Balance();  // requests may have been answered while it was starved
}

size_t Session::Charged(size_t bytes) {
  if (bytes <= kFreeBytes) return 0;
  return (bytes - kFreeBytes + kMemoryUnit - 1) / kMemoryUnit * kMemoryUnit;
}

void Session::Balance() {
  const size_t needed = Charged(bytes_running_ + admitted_);
  if (needed < taken_) memory_.Give(std::exchange(taken_, needed) - needed);
  const size_t waits = Charged(bytes_waiting_);
  if (waits < taken_for_waits_) memory_.GiveOfWaits(std::exchange(taken_for_waits_, waits) - waits);
}

bool Session::full() const {
  return open_.size() >= kOpenMax || bytes_running_ + bytes_waiting_ >= bytes_max_ ||
         values_open_ >= kValuesOpenMax || unsent() + unflushed() >= kOutputBytes;
}

size_t Session::unflushed() const {
  size_t bytes = 0;
  for (const Open& open : open_) bytes += open.reply.size();
  return bytes;
}

absl::Status Session::Run(Request request) {
  // A client of dialect A does not announce that its wait has timed out: it just sends another
  // request.
  if (dialect() == Dialect::kA) DropWaits();
  Fields& fields = request.fields;
  switch (request.verb) {
    case Verb::kWait:
      return RunWait(std::move(fields.strings));
    case Verb::kBarrier:
      return RunBarrier(fields.strings[0], fields.number);
    case Verb::kMultiGet:
      RunMultiGet(std::move(fields.strings));
      break;
    case Verb::kCancelWait:
      DropWaits();
      Begin(request.verb).reply.push_back(kWaitCanceled);
      Finish(open_.back());
      break;
    case Verb::kPing:
      AppendFields(ReplyShape(Verb::kPing), fields, &Begin(request.verb).reply);
      Finish(open_.back());
      break;
    default:
      RunAtOnce(request.verb, std::move(fields));
      break;
  }
  return absl::OkStatus();
}

void Session::RunAtOnce(Verb verb, Fields fields) {
  Open& open = Begin(verb);
  open.bytes = BytesOf(fields.strings);
  bytes_running_ += open.bytes;
  if (verb == Verb::kWatchKey) open.keys_left = fields.strings;
  open.value = RepliesWithValue(verb);
  if (open.value) ++values_open_;
  store_.Execute(OperationsOf(verb, std::move(fields)), AnswerTo(last_id()));
}

absl::Status Session::RunWait(std::vector<std::string> keys) {
  Open& open = Begin(Verb::kWait);
  DP_RETURN_IF_ERROR(HoldForWait(open, keys));
  open.wait = store_.Await(ReadsOf(std::move(keys)), AnswerTo(last_id()), peer_);
  return absl::OkStatus();
}

absl::Status Session::RunBarrier(const std::string& key, int64_t world_size) {
  Open& open = Begin(Verb::kBarrier);
  DP_RETURN_IF_ERROR(HoldForWait(open, {key}));
  std::vector<StoreOperation> arrive, reached;
  arrive.push_back(StoreAdd{key, 1});
  reached.push_back(StoreReached{key, world_size});
  store_.Execute(std::move(arrive), ErrorTo(last_id()));
  open.wait = store_.Await(std::move(reached), AnswerTo(last_id()), peer_);
  return absl::OkStatus();
}

absl::Status Session::HoldForWait(Open& open, const std::vector<std::string>& strings) {
  const size_t bytes = BytesOf(strings);
  const size_t needed = Charged(bytes_waiting_ + bytes) - taken_for_waits_;
  if (needed > 0 && !memory_.TakeForWaits(needed)) {
    open.answered = true;  // the store does not know of it
    return absl::ResourceExhaustedError(absl::StrCat("no room for a wait that takes ", bytes,
                                                     " bytes: the waits of all clients may take ",
                                                     memory_.waits_max(), "; ", memory_.remedy()));
  }
  taken_for_waits_ += needed;
  bytes_waiting_ += bytes;
  open.bytes = bytes;
  open.waits = true;
  return absl::OkStatus();
}

void Session::Release(Open& open) {
  (open.waits ? bytes_waiting_ : bytes_running_) -= std::exchange(open.bytes, 0);
  Balance();
}

void Session::RunMultiGet(std::vector<std::string> keys) {
  Open& open = Begin(Verb::kMultiGet);
  if (keys.empty()) return Finish(open);
  open.value = true;
  ++values_open_;
  open.bytes = BytesOf(keys);
  bytes_running_ += open.bytes;
  std::reverse(keys.begin(), keys.end());
  open.keys_left = std::move(keys);
  open.keys_next = kFirstPartKeys;
  RunPart(last_id());
}

void Session::RunPart(uint64_t id) {
  Open& open = *Find(id);
  std::vector<StoreOperation> reads;
  open.part.clear();
  while (reads.size() < open.keys_next && !open.keys_left.empty()) {
    open.part.push_back(std::move(open.keys_left.back()));
    open.keys_left.pop_back();
    reads.push_back(StoreGet{open.part.back()});
  }
  open.running = true;
  store_.Execute(std::move(reads), AnswerTo(id));
}

absl::Status Session::OnAnswer(uint64_t request, AsyncStore::Results results) {
  if (request == kMemoryId) {
    OnMemory(memory_.Collect(claim_));
    return absl::OkStatus();
  }
  Open* open = Find(request);
  const bool watch = (request & kWatchBit) != 0;
  if (!watch && (open == nullptr || open->answered)) return absl::OkStatus();  // it was dropped
  if (!watch && absl::IsResourceExhausted(results.status()) && open->part.size() > 1) {
    HalvePart(*open);
    return absl::OkStatus();
  }
  DP_RETURN_IF_ERROR(results.status());
  DP_RETURN_IF_ERROR(watch ? OnChange(request & ~kWatchBit, results->front())
                           : OnResults(*open, *std::move(results)));
  if (!full()) watches_.Resume();
  return absl::OkStatus();
}

absl::Status Session::OnResults(Open& open, std::vector<StoreResult> results) {
  const size_t before = open.reply.size();
  AppendReply(open.verb, results, &open.reply);
  if (open.verb == Verb::kWatchKey)
    DP_RETURN_IF_ERROR(watches_.Add(std::move(open.keys_left[0]), results[0]));
  if (open.verb == Verb::kMultiGet && !open.keys_left.empty())
    OnPart(open, open.reply.size() - before);
  else
    Finish(open);
  return absl::OkStatus();
}

void Session::OnPart(Open& open, size_t bytes) {
  const size_t bytes_per_key = bytes / open.keys_next;
  open.keys_next = std::clamp<size_t>(kPartBytes / bytes_per_key, 1, kPartKeys);
  open.running = false;
  Flush();
}

void Session::HalvePart(Open& open) {
  open.keys_next = open.part.size() / 2;
  for (; !open.part.empty(); open.part.pop_back()) {
    open.keys_left.push_back(std::move(open.part.back()));
  }
  open.running = false;
  Flush();
}

absl::Status Session::OnChange(size_t watch, const StoreResult& now) {
  const absl::Status status = watches_.OnChange(watch, now, &Begin(Verb::kWatchKey).reply);
  Finish(open_.back());
  return status;
}

void Session::OnSent(size_t bytes) {
  sent_ += bytes;
  DP_CHECK(sent_ <= output_.size());
  if (sent_ == output_.size()) {
    output_.clear();
    if (output_.capacity() > kOutputBytesKept) std::string().swap(output_);
    sent_ = 0;
  } else if (sent_ >= kOutputBytes) {
    output_.erase(0, sent_);
    sent_ = 0;
  }
  Flush();
  if (!full()) watches_.Resume();
}

void Session::DropWaits() {
  for (Open& open : open_) {
    const bool waits = open.verb == Verb::kWait || open.verb == Verb::kBarrier;
    if (!waits || open.answered) continue;
    store_.Cancel(open.wait);
    Release(open);
    open.answered = true;
  }
  Flush();
}

Session::Open& Session::Begin(Verb verb) {
  open_.emplace_back();
  open_.back().verb = verb;
  return open_.back();
}

Session::Open* Session::Find(uint64_t id) {
  if (id < first_id_ || id - first_id_ >= open_.size()) return nullptr;
  return &open_[id - first_id_];
}

AsyncStore::Done Session::AnswerTo(uint64_t id) const {
  return [mailbox = mailbox_, session = id_, id](AsyncStore::Results results) {
    mailbox->Send({session, id, std::move(results)});
  };
}

AsyncStore::Done Session::ErrorTo(uint64_t id) const {
  return [mailbox = mailbox_, session = id_, id](AsyncStore::Results results) {
    if (!results.ok()) mailbox->Send({session, id, std::move(results)});
  };
}

void Session::Finish(Open& open) {
  if (open.value) --values_open_;
  Release(open);
  open.answered = true;
  Flush();
}

void Session::Flush() {
  while (!open_.empty()) {
    Open& next = open_.front();
    output_.append(next.reply);
    if (!next.answered) {
      next.reply.clear();
      break;
    }
    open_.pop_front();
    ++first_id_;
  }
  if (open_.empty()) return;
  const Open& next = open_.front();
  if (next.verb == Verb::kMultiGet && !next.running && unsent() < kOutputBytes) RunPart(first_id_);
}

}  // namespace dp::wire
