#include <string>

#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/holder_view.h"
#include "client/dpctl/view/json_writer.h"
#include "client/dpctl/view/printable.h"
#include "client/dpctl/view/table.h"
#include "client/dpctl/view/time_text.h"
#include "dp/v1/access.grpc.pb.h"
#include "proto/convert/time.h"

namespace dp::ctl {
namespace {

class Access final : public Command {
 public:
  const char* name() const override { return "access"; }
  const char* summary() const override {
    return "List the people and workers whose access was granted or revoked";
  }
  const char* example() const override {
    return "dpctl access\n  dpctl access -o json | jq '.items[] | select(.role == \"admin\")'";
  }

  void DefineFlags(CLI::App&) override {}

  absl::StatusOr<int> Run(Context& context) override {
    DP_ASSIGN_OR_RETURN(const v1::ListHoldersResponse response,
                        context.Call(&v1::Access::Stub::ListHolders, {}));
    switch (context.flags().format) {
      case Format::kName:
        for (const v1::Holder& holder : response.holders()) {
          context.out() << Printable(HolderText(holder.name(), holder.worker())) << '\n';
        }
        break;
      case Format::kJson:
        PrintJson(response, context.out());
        break;
      case Format::kTable:
        PrintTable(response, context);
    }
    return kSuccess;
  }

 private:
  static void PrintJson(const v1::ListHoldersResponse& response, std::ostream& out) {
    JsonWriter json(out);
    json.BeginObject();
    json.Key("items");
    json.BeginArray();
    for (const v1::Holder& holder : response.holders()) {
      json.BeginObject();
      json.Field("name", holder.name());
      json.Field("kind", KindOf(holder.worker()));
      json.TextOrNull("role", holder.role());
      WriteTimeOrNull("revokedAt", holder.has_revoked_at(), holder.revoked_at(), json);
      WriteTimeOrNull("joinedAt", holder.has_joined_at(), holder.joined_at(), json);
      json.EndObject();
    }
    json.EndArray();
    json.EndObject();
  }

  static void WriteTimeOrNull(const char* key, bool known, const google::protobuf::Timestamp& time,
                              JsonWriter& json) {
    known ? WriteTime(key, FromProto(time), json) : json.NullField(key);
  }

  static void PrintTable(const v1::ListHoldersResponse& response, Context& context) {
    Table table({"NAME", "KIND", "ROLE", "REVOKED", "JOINED"});
    for (const v1::Holder& holder : response.holders()) {
      table.Add({holder.name(), KindOf(holder.worker()), holder.role(),
                 holder.has_revoked_at() ? TimeText(FromProto(holder.revoked_at())) : "",
                 holder.has_joined_at() ? TimeText(FromProto(holder.joined_at())) : ""});
    }
    table.Print(context.out(), !context.flags().no_headers);
  }
};

}  // namespace

std::unique_ptr<Command> MakeAccess() { return std::make_unique<Access>(); }

}  // namespace dp::ctl
