#include "client/grpc_channel.h"

#include "base/limits.h"

namespace dp::client {
namespace {

// A restarted coordinator is found within about a second. Longer pauses between the channel's own
// attempts to connect would outlast the retries above it.
constexpr int kReconnectMsMin = 100;
constexpr int kReconnectMsMax = 1000;
// A peer that vanished without closing the connection (power, cable) is noticed within the sum.
constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 5'000;

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address) {
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMsMin);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kReconnectMsMax);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMsMax);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  args.SetInt(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, kMessageBytesMax);
  args.SetInt(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, kMessageBytesMax);
  // Two connections of one process share neither a socket nor its failures.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // The coordinator is in the same network; a web proxy would only be in the way.
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Only RetryLoop decides about retries.
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args);
}

}  // namespace dp::client
