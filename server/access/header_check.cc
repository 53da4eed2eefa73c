#include "server/access/header_check.h"

#include <optional>

#include "absl/strings/string_view.h"
#include "base/security/token.h"
#include "server/convert/convert_call.h"

namespace dp::server {

grpc::Status HeaderCheck::Process(const InputMetadata& headers, grpc::AuthContext* connection,
                                  OutputMetadata* /*consumed*/, OutputMetadata* /*response*/) {
  const auto find = [&headers](const char* name) -> std::optional<absl::string_view> {
    const auto found = headers.find(name);
    if (found == headers.end()) return std::nullopt;
    return absl::string_view(found->second.data(), found->second.size());
  };
  return ToGrpc(
      gate_.CheckHeaders(*connection, find(":path").value_or(""), find(security::kTokenMetadata)));
}

}  // namespace dp::server
