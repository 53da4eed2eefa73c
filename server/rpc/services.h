#pragma once

#include <memory>
#include <string>

#include "grpcpp/impl/service_type.h"
#include "server/access/authority.h"
#include "server/access/gate.h"
#include "server/callers/client_table.h"
#include "server/callers/store_callers.h"
#include "server/logs/log_thread.h"
#include "server/parameters/parameters.h"

// The services of proto/dp/v1, one file each. They reach the driver through the gate, and are
// thread-safe. The arguments must outlive the service.

namespace dp::server {

// The last lines of a failure may come from the logs. `direct_stores`: whether the coordinator
// itself serves stores of jobs.
std::unique_ptr<grpc::Service> MakeJobsService(Gate& gate, LogThread& logs, bool direct_stores);

// `store_host` is where ranks find stores that the coordinator serves; empty: where their worker
// finds the coordinator.
std::unique_ptr<grpc::Service> MakeWorkersService(Gate& gate, ClientTable& clients,
                                                  std::string store_host);

std::unique_ptr<grpc::Service> MakeWorldsService(Gate& gate);

std::unique_ptr<grpc::Service> MakeStoreService(Gate& gate, StoreCallers& callers);

// Read answers with bytes, so that followers of a job share the bytes of a page.
std::unique_ptr<grpc::Service> MakeLogsService(Gate& gate, LogThread& logs);

std::unique_ptr<grpc::Service> MakeCheckpointsService(Gate& gate);

std::unique_ptr<grpc::Service> MakeParametersService(Gate& gate, Parameters& parameters);

// `authority` signs certificates; null: none are given out, because the server does not use TLS.
// `own_certificate`: as in TlsOptions.
std::unique_ptr<grpc::Service> MakeAccessService(Gate& gate, const Authority* authority,
                                                 bool own_certificate);

}  // namespace dp::server
