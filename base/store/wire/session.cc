#include "base/store/wire/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "base/store/wire/translation.h"

namespace dp::wire {
namespace {

// Requests of one connection in the store's hands. PyTorch's clients have one, and any number of
// sets, which are not answered.
constexpr size_t kOpenMax = 64;
// What may wait to be sent before no more is asked for. One reply may be longer than that.
constexpr size_t kOutputBytes = size_t{1} << 20;
// Buffers of up to this size are kept for the next reply.
constexpr size_t kOutputBytesKept = size_t{4} << 10;

// A multi_get may name keys of terabytes altogether, and is therefore fetched in parts of about so
// many bytes. How long values are is not known before the first part.
constexpr size_t kPartBytes = size_t{4} << 20;
constexpr size_t kFirstPartKeys = 16;
constexpr size_t kPartKeys = 4096;

// Answers to a watch are told from those to a request by this bit.
constexpr uint64_t kWatchBit = uint64_t{1} << 63;

size_t BytesOf(const Fields& fields) {
  size_t bytes = 0;
  for (const std::string& string : fields.strings) bytes += string.size();
  return bytes;
}

}  // namespace

Session::Session(uint64_t id, AsyncStore& store, const RequestOptions& options,
                 std::shared_ptr<Mailbox> mailbox, std::string peer)
    : id_(id),
      store_(store),
      bytes_max_(options.limits.message_bytes),
      mailbox_(std::move(mailbox)),
      peer_(std::move(peer)),
      parser_(options),
      watches_(store, [this](size_t index) { return AnswerTo(kWatchBit | index); }) {}

Session::~Session() { DropWaits(); }

absl::Status Session::Consume(absl::string_view bytes) {
  DP_CHECK(held_.empty());
  Request request;
  while (!full()) {
    DP_ASSIGN_OR_RETURN(const bool complete, parser_.Next(&bytes, &request));
    if (!complete) return absl::OkStatus();
    Run(std::move(request));
  }
  held_.assign(bytes.data(), bytes.size());
  return absl::OkStatus();
}

absl::Status Session::Continue() { return Consume(std::exchange(held_, {})); }

bool Session::full() const {
  return open_.size() >= kOpenMax || bytes_running_ >= bytes_max_ || unsent() >= kOutputBytes;
}

void Session::Run(Request request) {
  // A client of dialect A that has lost patience does not say so: it just asks something else.
  if (dialect() == Dialect::kA) DropWaits();
  Fields& fields = request.fields;
  switch (request.verb) {
    case Verb::kWait:
      return RunWait(std::move(fields.strings));
    case Verb::kBarrier:
      return RunBarrier(fields.strings[0], fields.number);
    case Verb::kMultiGet:
      return RunMultiGet(std::move(fields.strings));
    case Verb::kCancelWait:
      DropWaits();
      Begin(request.verb).reply.push_back(kWaitCanceled);
      return Finish(open_.back());
    case Verb::kPing:
      AppendFields(ReplyShape(Verb::kPing), fields, &Begin(request.verb).reply);
      return Finish(open_.back());
    default:
      return RunAtOnce(request.verb, std::move(fields));
  }
}

void Session::RunAtOnce(Verb verb, Fields fields) {
  Open& open = Begin(verb);
  open.bytes = BytesOf(fields);
  bytes_running_ += open.bytes;
  if (verb == Verb::kWatchKey) open.keys_left = fields.strings;
  store_.Execute(OperationsOf(verb, std::move(fields)), AnswerTo(last_id()));
}

void Session::RunWait(std::vector<std::string> keys) {
  Open& open = Begin(Verb::kWait);
  for (const std::string& key : keys) open.bytes += key.size();
  bytes_running_ += open.bytes;
  open.wait = store_.Await(ReadsOf(std::move(keys)), AnswerTo(last_id()), peer_);
}

void Session::RunBarrier(const std::string& key, int64_t world_size) {
  Open& open = Begin(Verb::kBarrier);
  std::vector<StoreOperation> arrive, reached;
  arrive.push_back(StoreAdd{key, 1});
  reached.push_back(StoreReached{key, world_size});
  store_.Execute(std::move(arrive), ErrorTo(last_id()));
  open.wait = store_.Await(std::move(reached), AnswerTo(last_id()), peer_);
}

void Session::RunMultiGet(std::vector<std::string> keys) {
  Open& open = Begin(Verb::kMultiGet);
  if (keys.empty()) return Finish(open);
  std::reverse(keys.begin(), keys.end());
  open.keys_left = std::move(keys);
  open.keys_next = kFirstPartKeys;
  RunPart(last_id());
}

void Session::RunPart(uint64_t id) {
  Open& open = *Find(id);
  std::vector<StoreOperation> part;
  while (part.size() < open.keys_next && !open.keys_left.empty()) {
    part.push_back(StoreGet{std::move(open.keys_left.back())});
    open.keys_left.pop_back();
  }
  open.running = true;
  store_.Execute(std::move(part), AnswerTo(id));
}

absl::Status Session::OnAnswer(uint64_t request, AsyncStore::Results results) {
  Open* open = Find(request);
  const bool watch = (request & kWatchBit) != 0;
  if (!watch && (open == nullptr || open->answered)) return absl::OkStatus();  // it was dropped
  DP_RETURN_IF_ERROR(results.status());
  if (watch)
    OnChange(request & ~kWatchBit, results->front());
  else
    DP_RETURN_IF_ERROR(OnResults(*open, *std::move(results)));
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

void Session::OnChange(size_t watch, const StoreResult& now) {
  watches_.OnChange(watch, now, &Begin(Verb::kWatchKey).reply);
  Finish(open_.back());
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
    bytes_running_ -= open.bytes;
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
  bytes_running_ -= open.bytes;
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
