#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>

#include "base/backoff.h"
#include "base/bounded_queue.h"
#include "base/clock.h"
#include "base/program/repeated_reason.h"
#include "client/connection.h"
#include "dp/v1/logs.pb.h"
#include "worker/agent/spool/log_spool.h"
#include "worker/agent/spool/spool_file.h"
#include "worker/agent/spool/spool_watch.h"
#include "worker/core/rank.h"
#include "worker/core/session.h"

namespace dp::worker {

// About how much the spools of all ranks of a host keep: 128 MiB for each of eight.
inline constexpr uint64_t kSpoolBytesMax = uint64_t{1} << 30;

// How many spools may wait for the coordinator when nothing else is left of their ranks; past it
// the oldest are dropped. At 64 KiB a file, the least, all of them fit into kSpoolBytesMax.
inline constexpr size_t kLeftOversMax = 4096;

// News of one rank's logs: the coordinator has stored some, or needs nothing more of them (`all`).
// Or the coordinator has no room for the rest of a rank that is gone (`refused`).
struct LogsNews {
  RankKey key;
  uint64_t follow = 0;  // which order to follow a spool; see LogShipper::Follows
  bool all = false;
  bool refused = false;
};

// Sends what ranks append to their spool files, in order and at least once. Tracks how much the
// coordinator has stored durably. Holds one batch in memory, however much ranks write. While the
// coordinator is away or has no room, the files keep the rest, within their bound (SpoolWatch). A
// thread of its own does this work. The methods only leave orders; one thread calls them all. The
// owner cancels the calls in flight on `connection` before it destroys the shipper.
class LogShipper {
 public:
  // Called on the shipper's thread; must not block.
  using Sink = std::function<void(LogsNews)>;

  struct Options {
    uint64_t seed = 0;
    uint64_t spool_bytes_max = kSpoolBytesMax;
    // The disk of the spools.
    SpoolWatch::Disk spool_disk = [] { return DiskSpace(); };
    // Gives the times of lines; must outlive the shipper.
    const Clock& clock = Clock::System();
  };
  LogShipper(client::Connection& connection, const Options& options, Sink sink);
  ~LogShipper();

  // Sends for this session from now on.
  void Use(const Session& session);
  void Follow(const RankKey& key, const LogSpool& spool);
  // The same for ranks of earlier daemons, which write nothing any more.
  void FollowLeftOvers(std::map<RankKey, LogSpool> spools);
  // The rank writes nothing any more: its files are complete.
  void Finish(const RankKey& key);
  // Stops following, whatever is left to send.
  void Drop(const RankKey& key);
  // Whether the news is of a spool that is still followed. News of a dropped spool may arrive
  // late. A coordinator that has lost data may have given its key to a new rank by then.
  bool Follows(const LogsNews& news) const;

 private:
  struct UseOrder {
    Session session;
  };
  struct FollowOrder {
    std::map<RankKey, LogSpool> spools;
    uint64_t number = 0;
    bool left_over = false;
  };
  struct FinishOrder {
    RankKey key;
  };
  struct DropOrder {
    RankKey key;
  };
  using Order = std::variant<UseOrder, FollowOrder, FinishOrder, DropOrder>;

  struct RankLogs {
    std::array<std::shared_ptr<SpoolFile>, std::size(kLogStreams)> files;
    uint64_t follow = 0;
    std::optional<absl::Time> job_submitted_at;
    std::string place;        // of the spool
    bool announced = false;   // in this session the coordinator knows of the output
    bool finished = false;    // nothing more will be written
    bool whole_told = false;  // the coordinator knows that it has all
    bool given_up = false;    // the coordinator rejects it for good
    bool reported = false;    // the sink knows that all is stored
    bool stored() const;      // all of it
  };

  void Push(Order order);

  // On the thread.
  void Loop();
  void CarryOut(const UseOrder& order);
  void CarryOut(const FollowOrder& order);
  void Follow(const RankKey& key, const LogSpool& spool, const FollowOrder& order);
  void CarryOut(const FinishOrder& order);
  void CarryOut(const DropOrder& order);
  absl::Duration Patience();
  // Sends one batch, of the first job from the cursor on that has something to send.
  void ShipOnce();
  v1::AppendLogsRequest NextBatch();
  void AddChunks(const RankKey& key, const RankLogs& logs, v1::AppendLogsRequest* batch);
  // Sets the batch's job.
  static void Belongs(const RankKey& key, const RankLogs& logs, v1::AppendLogsRequest* batch);
  // Adds where the output is and whether all of it is stored, if the coordinator does not know it
  // yet.
  static void AddRank(const RankKey& key, const RankLogs& logs, v1::AppendLogsRequest* batch);
  // Returns whether the batch had such news.
  bool TakeTold(const v1::AppendLogsRequest& batch);
  void TakeAcknowledgement(const v1::AppendLogsRequest& batch,
                           const v1::AppendLogsResponse& response);
  // Whether the rank is of the batch's job; true if the batch is empty.
  static bool SameJob(const v1::AppendLogsRequest& batch, const RankKey& key, const RankLogs& logs);
  void GiveUp(const v1::AppendLogsRequest& batch);
  // The coordinator has no room for the batch.
  void TakeRefusal(const v1::AppendLogsRequest& batch);
  void TellFinished();

  client::Connection& connection_;
  const Sink sink_;
  BoundedQueue<Order> orders_;

  // Owned by the thread that gives orders.
  uint64_t last_follow_ = 0;
  std::map<RankKey, uint64_t> follows_;  // the orders that have not been followed by a Drop

  const Clock& clock_;
  SpoolWatch watch_;

  // Owned by the thread.
  std::optional<Session> session_;
  std::map<RankKey, RankLogs> ranks_;
  RankKey cursor_;  // the rank whose turn it is
  bool more_ = false;
  int refusals_ = 0;  // in a row, for lack of room
  Backoff backoff_;
  absl::Duration pause_ = absl::ZeroDuration();  // before the next attempt
  RepeatedReason trouble_{"logs_not_shipped"};

  std::jthread thread_;
};

}  // namespace dp::worker
