#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/checksum/crc32c.h"
#include "client/testing/in_process.h"
#include "dp/v1/parameters.grpc.pb.h"

namespace dp::client {

// The coordinator's sets of parameters, in memory, each version in one chunk. Runs on gRPC's
// threads, one call at a time. A test reads the public members after a call.
class FakeParameters final : public v1::Parameters::Service {
 public:
  struct Kept {
    v1::ParameterVersion version;
    std::string data;
  };
  using Key = std::pair<uint64_t, std::string>;  // job and name

  std::map<Key, std::vector<Kept>> sets;  // versions from 1 on
  bool away = false;                      // Describe finds no coordinator
  int page = 1'000;                       // versions in one answer of List

  // Makes a named set that of a job, as if its ranks had pushed it.
  void GiveToJob(const std::string& name, uint64_t job) {
    std::vector<Kept> set = std::move(sets[{0, name}]);
    sets.erase({0, name});
    for (Kept& kept : set) {
      kept.version.set_job(job);
      kept.version.clear_name();
    }
    sets[{job, ""}] = std::move(set);
  }

  grpc::Status Push(grpc::ServerContext*, grpc::ServerReader<v1::PushParametersRequest>* reader,
                    v1::PushParametersResponse* response) override {
    v1::PushParametersRequest header, message;
    Kept kept;
    for (bool first = true; reader->Read(&message); first = false) {
      if (first) header = message;
      kept.data += message.data();
    }
    std::vector<Kept>& set = sets[{header.job(), header.name()}];
    kept.version.set_job(header.job());
    kept.version.set_name(header.name());
    kept.version.set_version(set.size() + 1);
    kept.version.set_step(header.step());
    kept.version.set_bytes(kept.data.size());
    kept.version.set_tensor_count(static_cast<uint32_t>(header.tensors_size()));
    *kept.version.mutable_tensors() = header.tensors();
    *kept.version.mutable_metadata() = header.metadata();
    set.push_back(kept);
    *response->mutable_version() = Listed(kept);
    return grpc::Status::OK;
  }
  grpc::Status Pull(grpc::ServerContext*, const v1::PullParametersRequest* request,
                    grpc::ServerWriter<v1::PullParametersResponse>* writer) override {
    const Kept* const found = Find(*request);
    if (found == nullptr) return Unknown();
    v1::PullParametersResponse message;
    *message.mutable_version() = found->version;
    message.set_data(found->data);
    message.set_crc32c(ExtendCrc32c(0, found->data));
    writer->Write(message);
    return grpc::Status::OK;
  }
  grpc::Status List(grpc::ServerContext*, const v1::ListParametersRequest* request,
                    v1::ListParametersResponse* response) override {
    const bool all = request->job() == 0 && request->name().empty();
    v1::ListParametersResponse whole;
    for (const auto& [key, set] : sets) {
      if (all) *whole.add_versions() = Listed(set.back());
      if (key != Key(request->job(), request->name())) continue;
      for (auto kept = set.rbegin(); kept != set.rend(); ++kept) {
        *whole.add_versions() = Listed(*kept);
      }
    }
    if (!all && whole.versions().empty()) return Unknown();
    const auto is_last = [&](const v1::ParameterVersion& each) {
      return each.job() == request->after().job() && each.name() == request->after().name() &&
             each.version() == request->after().version();
    };
    auto next = std::find_if(whole.versions().begin(), whole.versions().end(), is_last);
    next = next == whole.versions().end() ? whole.versions().begin() : next + 1;
    for (; next != whole.versions().end() && response->versions_size() < page; ++next) {
      *response->add_versions() = *next;
    }
    response->set_more(next != whole.versions().end());
    return grpc::Status::OK;
  }
  grpc::Status Describe(grpc::ServerContext*, const v1::DescribeParametersRequest* request,
                        v1::DescribeParametersResponse* response) override {
    if (away) return ToGrpc(absl::UnavailableError("away"));
    const Kept* const found = Find(*request);
    if (found == nullptr) return Unknown();
    *response->mutable_version() = found->version;
    return grpc::Status::OK;
  }
  // Version 0 alone: a whole set.
  grpc::Status Remove(grpc::ServerContext*, const v1::RemoveParametersRequest* request,
                      v1::RemoveParametersResponse* response) override {
    if (request->request_id().empty()) return ToGrpc(absl::InvalidArgumentError("request_id"));
    const Kept* const found = Find(*request);
    if (found == nullptr) return Unknown();
    response->set_bytes(found->data.size());
    if (request->version() == 0) sets.erase({request->job(), request->name()});
    return grpc::Status::OK;
  }

 private:
  static v1::ParameterVersion Listed(const Kept& kept) {
    v1::ParameterVersion version = kept.version;
    version.clear_tensors();
    version.clear_metadata();
    return version;
  }
  static grpc::Status Unknown() {
    return ToGrpc(absl::NotFoundError("there are no such parameters"));
  }
  // Version 0 is the latest.
  template <typename Request>
  const Kept* Find(const Request& request) const {
    const auto set = sets.find({request.job(), request.name()});
    if (set == sets.end() || request.version() > set->second.size()) return nullptr;
    return &set->second[request.version() == 0 ? set->second.size() - 1 : request.version() - 1];
  }
};

}  // namespace dp::client
