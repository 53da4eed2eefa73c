#pragma once

#include <cstddef>

#include "absl/time/time.h"

// Bounds that more than one part holds to, each with its reason: dpctl checks a job by them before
// it is sent, the coordinator whatever is sent; what a worker sends, the coordinator takes.

namespace dp {

// A job. Bounds against slips of the pen stand an order of magnitude above what anyone runs.

// What placement, worlds and answers are made for.
inline constexpr int kRanksMax = 10'000;
inline constexpr int kThreadsPerRankMax = 1'024;
// A petabyte.
inline constexpr int kMemoryMibPerRankMax = 1 << 30;
// As a DNS label, so that it can become part of one.
inline constexpr int kJobNameBytesMax = 63;
// From 0, which kills at once, to as long as a checkpoint may take.
inline constexpr absl::Duration kGraceMax = absl::Hours(1);
// As torchrun's: a rank that saves when it is asked to end often needs more than ten seconds.
inline constexpr absl::Duration kGraceDefault = absl::Seconds(30);
// Below it a busy host would look like a hang; and a job that hangs for longer than a day is not
// watched by anyone.
inline constexpr absl::Duration kDetectWithinMin = absl::Seconds(1);
inline constexpr absl::Duration kDetectWithinMax = absl::Hours(24);
inline constexpr absl::Duration kDetectWithinDefault = absl::Seconds(30);
// Of holding slots, and of staying on record: a second and a year.
inline constexpr absl::Duration kMaxDurationMin = absl::Seconds(1);
inline constexpr absl::Duration kMaxDurationMax = absl::Hours(24 * 365);
// As far as a job may push itself ahead of others, and behind them.
inline constexpr int kPriorityMax = 1'000;
// Above 0. A terabyte; no model has one bucket of that.
inline constexpr double kBucketCapMbMax = 1 << 20;
// As a file it is written by hand, and more is another file given by mistake; as a message it is
// journalled, and goes to every worker in each assignment.
inline constexpr size_t kSpecBytesMax = 1 << 20;
// A job that has been restarted more often is not going to work.
inline constexpr int kRestartsMax = 1'000;
// Generations in a row that never ran: as many as a job keeps the failures of.
inline constexpr int kStartupRestartsMax = 10;
// What a rank can exit with: 128 + N stands for signal N.
inline constexpr int kExitCodeMax = 255;
inline constexpr int kExitCodesMax = 256;
inline constexpr absl::Duration kRestartWindowMax = absl::Hours(24 * 30);
// One argument, or one variable as NAME=VALUE: what Linux gives a program at its start, less the
// zero byte that ends it.
inline constexpr size_t kArgumentBytesMax = (128 << 10) - 1;
// Variables with this in front are dp's own (docs/job-file.md).
inline constexpr char kReservedVariables[] = "DP_";

// Checkpoints of one job on record.
inline constexpr int kCheckpointsKeptMax = 1'000;
// Below it a model would be written more often than it changes; above it nobody waits for it.
inline constexpr absl::Duration kCheckpointEveryMin = absl::Seconds(1);
inline constexpr absl::Duration kCheckpointEveryMax = absl::Hours(24 * 365);
// As long as Linux takes a path.
inline constexpr size_t kPathBytesMax = 4'096;
// The name of who submits.
inline constexpr size_t kUserBytesMax = 256;
// What a worker says of itself when it registers: labels, ports, names and addresses together.
inline constexpr size_t kRegistrationBytesMax = 64 << 10;

// The connections to stores that a worker names the ranks of, and those of one rank: a program has
// a few.
inline constexpr size_t kStoreClientsMax = 4'096;
inline constexpr size_t kStoreClientsOfRankMax = 32;
// The end of a connection as text; 47 are enough.
inline constexpr size_t kSocketEndBytesMax = 64;

// The GPUs that a worker describes; no host has more.
inline constexpr size_t kGpusMax = 64;
// A word on one of them: its model, its UUID.
inline constexpr size_t kGpuWordBytesMax = 128;

// A worker with more slots than this is a typing error.
inline constexpr int kSlotsMax = 1'024;

// What a failure keeps of a rank's output: enough to see why, small enough for the journal; the log
// has all of it.
inline constexpr size_t kLastLinesMax = 20;
inline constexpr size_t kLastLineBytesMax = 1 << 10;
// Why a process could not be started.
inline constexpr size_t kStartErrorBytesMax = 4 << 10;

// A line of a log from here on is passed on in pieces: a rank may write for ever without a break.
inline constexpr size_t kWholeLineBytesMax = 64 << 10;

// One message of a call, either way. A store's value may have 8 MiB (KeyValueLimits), and a
// compare_set has two; a request of logs 4 MiB; with room for the rest.
inline constexpr int kMessageBytesMax = 20 << 20;

// Tokens of one sample of a text; more is a slip of the pen.
inline constexpr int kContextMax = 65536;
// Kinds of tokens: they have 16 bits.
inline constexpr int kVocabularyMax = 65536;

}  // namespace dp
