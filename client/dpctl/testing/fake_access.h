#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/testing/in_process.h"
#include "dp/v1/access.grpc.pb.h"

namespace dp::ctl {

// The coordinator's Access service, scripted by a test. Runs on gRPC's threads. A test sets the
// public members before a call and reads them after it.
class FakeAccess final : public v1::Access::Service {
 public:
  v1::WhoAmIResponse who_am_i;
  v1::CreateTokenResponse token;
  std::vector<v1::CreateTokenRequest> token_requests;
  v1::GrantResponse granted;
  std::vector<v1::GrantRequest> grants;
  std::vector<v1::RevokeRequest> revocations;
  bool unknown = false;  // nobody of the revoked name was on record
  v1::ListHoldersResponse holders;
  v1::ListRefusalsResponse refusals;
  // The error of all calls but WhoAmI, if any: the caller may not make them.
  absl::Status denied;
  // The certificate for a request to renew one.
  std::function<std::string(const std::string& signing_request)> renew;

  grpc::Status WhoAmI(grpc::ServerContext*, const v1::WhoAmIRequest*,
                      v1::WhoAmIResponse* response) override {
    *response = who_am_i;
    return grpc::Status::OK;
  }
  grpc::Status CreateToken(grpc::ServerContext*, const v1::CreateTokenRequest* request,
                           v1::CreateTokenResponse* response) override {
    token_requests.push_back(*request);
    *response = token;
    return client::ToGrpc(denied);
  }
  grpc::Status Grant(grpc::ServerContext*, const v1::GrantRequest* request,
                     v1::GrantResponse* response) override {
    grants.push_back(*request);
    *response = granted;
    return client::ToGrpc(denied);
  }
  grpc::Status Revoke(grpc::ServerContext*, const v1::RevokeRequest* request,
                      v1::RevokeResponse* response) override {
    revocations.push_back(*request);
    response->set_unknown(unknown);
    return client::ToGrpc(denied);
  }
  grpc::Status ListHolders(grpc::ServerContext*, const v1::ListHoldersRequest*,
                           v1::ListHoldersResponse* response) override {
    *response = holders;
    return client::ToGrpc(denied);
  }
  grpc::Status ListRefusals(grpc::ServerContext*, const v1::ListRefusalsRequest*,
                            v1::ListRefusalsResponse* response) override {
    *response = refusals;
    return client::ToGrpc(denied);
  }
  grpc::Status Renew(grpc::ServerContext*, const v1::RenewRequest* request,
                     v1::RenewResponse* response) override {
    response->mutable_certificate()->set_chain(renew(request->signing_request()));
    response->mutable_certificate()->set_authorities("authorities");
    return client::ToGrpc(denied);
  }
};

}  // namespace dp::ctl
