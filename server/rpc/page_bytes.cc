#include "server/rpc/page_bytes.h"

#include "dp/v1/logs.pb.h"
#include "server/convert/convert_logs.h"

namespace dp::server {
namespace {

grpc::Slice Encode(const LogPage& page, bool finished) {
  v1::ReadLogsResponse response;
  response.set_finished(finished && page.exhausted);
  for (const LogChunk& chunk : page.chunks) *response.add_chunks() = ToProto(chunk);
  for (const LogPosition& position : page.next) *response.add_next() = ToProto(position);
  for (const OutstandingOutput& each : page.outstanding) {
    *response.add_outstanding() = ToProto(each);
  }
  response.set_outstanding_ranks(static_cast<int>(page.outstanding_ranks));
  return grpc::Slice(response.SerializeAsString());
}

}  // namespace

grpc::Slice PageBytes::Of(const std::shared_ptr<const LogPage>& page, bool finished) {
  for (const Entry& entry : entries_) {
    if (entry.page == page) return entry.bytes;
  }
  if (entries_.size() == RecentPages::kPagesMax) entries_.pop_front();
  entries_.push_back({page, Encode(*page, finished)});
  return entries_.back().bytes;
}

}  // namespace dp::server
