#pragma once

#include <cstddef>

#include "absl/time/time.h"

// Limits that several parts enforce, each with its reason. dpctl checks a job before it sends the
// job; the coordinator checks every job that it receives. Workers keep within the limits, so the
// coordinator accepts their messages.

namespace dp {

// Jobs. Limits against typing errors are an order of magnitude above real use.

// Placement, worlds and answers are made for this many.
inline constexpr int kRanksMax = 10'000;
inline constexpr int kThreadsPerRankMax = 1'024;
// A petabyte.
inline constexpr int kMemoryMibPerRankMax = 1 << 30;
// As long as a DNS label, so that a name can become part of one.
inline constexpr int kJobNameBytesMax = 63;
// From 0, which kills at once, to the time that saving a checkpoint may take.
inline constexpr absl::Duration kGraceMax = absl::Hours(1);
// As torchrun's: a rank that saves when asked to end often needs more than ten seconds.
inline constexpr absl::Duration kGraceDefault = absl::Seconds(30);
// Below the minimum a busy host would look like a hang. Above the maximum nobody watches the job
// any more.
inline constexpr absl::Duration kDetectWithinMin = absl::Seconds(1);
inline constexpr absl::Duration kDetectWithinMax = absl::Hours(24);
inline constexpr absl::Duration kDetectWithinDefault = absl::Seconds(30);
// Range of maxDuration, growAfter and ttlAfterFinish: a second to a year. growAfter and
// ttlAfterFinish may also be 0.
inline constexpr absl::Duration kMaxDurationMin = absl::Seconds(1);
inline constexpr absl::Duration kMaxDurationMax = absl::Hours(24 * 365);
// Highest priority; the lowest is its negative.
inline constexpr int kPriorityMax = 1'000;
// Above 0. A terabyte; no model has a bucket of that size.
inline constexpr double kBucketCapMbMax = 1 << 20;
// A larger job file is another file given by mistake. As a message the spec is journalled and is
// part of each assignment.
inline constexpr size_t kSpecBytesMax = 1 << 20;
// A job with more restarts than this is not going to work.
inline constexpr int kRestartsMax = 1'000;
// Generations in a row that never ran; a job keeps the failures of as many.
inline constexpr int kStartupRestartsMax = 10;
// Exit codes of a rank; 128 + N stands for signal N.
inline constexpr int kExitCodeMax = 255;
inline constexpr int kExitCodesMax = 256;
inline constexpr absl::Duration kRestartWindowMax = absl::Hours(24 * 30);
// One argument, or one variable as NAME=VALUE: Linux's limit, less the terminating zero byte.
inline constexpr size_t kArgumentBytesMax = (128 << 10) - 1;
// Variables with this prefix are reserved for dp (docs/job-file.md).
inline constexpr char kReservedVariables[] = "DP_";

// Secrets of one job; a job with more is better served by one that holds a file.
inline constexpr size_t kSecretsMax = 32;
// Names and values of a job's secrets together. They are a part of each assignment of its ranks,
// and a program's variables share Linux's limit for them.
inline constexpr size_t kSecretBytesMax = 64 << 10;
// Longer than any that somebody would write.
inline constexpr size_t kSecretNameBytesMax = 256;
// A shorter value is no secret, and hiding it would make output unreadable.
inline constexpr size_t kSecretValueBytesMin = 4;

// Checkpoints of one job on record.
inline constexpr int kCheckpointsKeptMax = 1'000;
// More often, a model would be written more often than it changes; more rarely, nobody waits for
// it.
inline constexpr absl::Duration kCheckpointEveryMin = absl::Seconds(1);
inline constexpr absl::Duration kCheckpointEveryMax = absl::Hours(24 * 365);
// Linux's limit for paths.
inline constexpr size_t kPathBytesMax = 4'096;
// The name of the submitting user.
inline constexpr size_t kUserBytesMax = 256;
// All that a worker reports when it registers: labels, ports, names and addresses together.
inline constexpr size_t kRegistrationBytesMax = 64 << 10;

// Connections to stores whose ranks a worker reports, in all and of one rank: a program has a few.
inline constexpr size_t kStoreClientsMax = 4'096;
inline constexpr size_t kStoreClientsOfRankMax = 32;
// One end of a connection as text; 47 bytes are enough.
inline constexpr size_t kSocketEndBytesMax = 64;

// GPUs that a worker describes; no host has more.
inline constexpr size_t kGpusMax = 64;
// A word about a GPU: its model, its UUID.
inline constexpr size_t kGpuWordBytesMax = 128;

// A worker with more slots than this is a typing error.
inline constexpr int kSlotsMax = 1'024;
// Devices of one rank, on which it computes replicas or layers. Each takes a thread at least.
inline constexpr int kDevicesPerRankMax = 64;

// The lines of a rank's output that a failure keeps: enough to see why, few enough for the journal.
// The log has all lines.
inline constexpr size_t kLastLinesMax = 20;
inline constexpr size_t kLastLineBytesMax = 1 << 10;
// The reason why a process could not be started.
inline constexpr size_t kStartErrorBytesMax = 4 << 10;

// A log line of this size is passed on in pieces: a rank may write for ever without a line break.
inline constexpr size_t kWholeLineBytesMax = 64 << 10;

// One message of a call, in either direction. A store's value may have 8 MiB (KeyValueLimits), and
// a compare_set has two values; a request of logs has 4 MiB. The rest is headroom.
inline constexpr int kMessageBytesMax = 20 << 20;

// Data in one message of a stream of parameters. Each message but the last has as much. Large
// beside the cost of a message, small beside what one connection may buffer.
inline constexpr size_t kParameterChunkBytes = size_t{1} << 20;
// Tensors of one version of parameters, and the bytes of a tensor's name.
inline constexpr int kParameterTensorsMax = 100'000;
inline constexpr size_t kTensorNameBytesMax = 512;
// Texts that go with a version, names and values together. The description of a model names its
// layers and classes.
inline constexpr size_t kParameterMetadataBytesMax = size_t{1} << 20;

// Tokens of one text sample; more is a typing error.
inline constexpr int kContextMax = 65536;
// Kinds of tokens: a token has 16 bits.
inline constexpr int kVocabularyMax = 65536;

// Layers of a model; GPT-2 with 48 blocks has about 700.
inline constexpr int kLayersMax = 4096;

// Classes of a confusion matrix, which is one line of the metrics.
inline constexpr int kConfusionClassesMax = 100;

// Groups of weights with options of their own; kernels number them in a byte.
inline constexpr int kParameterGroupsMax = 64;

}  // namespace dp
