#include "server/journal/convert_command.h"

#include <string>
#include <utility>
#include <variant>

#include "base/status.h"
#include "server/convert/convert_call.h"
#include "server/journal/command_versions.h"
#include "server/journal/own_forms.h"

namespace dp::server {
namespace {

using Record = journal::JournalRecord;

// The record's field for commands of one kind: its message has the name of the command.
template <typename Kind>
const FieldDescriptor* ActionField() {
  static const FieldDescriptor* const field = [] {
    const auto* const action = Record::descriptor()->FindOneofByName("action");
    for (int i = 0; i < action->field_count(); ++i) {
      if (action->field(i)->message_type()->name() == NameOf<Kind>()) return action->field(i);
    }
    return static_cast<const FieldDescriptor*>(nullptr);
  }();
  DP_CHECK(field != nullptr);
  return field;
}

template <typename Kind>
void Fill(const Kind& command, Record* record) {
  Save(command, record->GetReflection()->MutableMessage(record, ActionField<Kind>()));
  if constexpr (requires { Kind::kVersion; }) {
    if (command.version > 1) record->set_version(command.version);
  }
}

// Looks for the command among the kinds from kIndex on.
template <size_t kIndex = 0>
absl::StatusOr<core::Action> ToAction(const Record& record) {
  if constexpr (kIndex == std::variant_size_v<core::AnyAction>) {
    // Includes a command of a later release: protobuf keeps the unknown field, and leaves the
    // action unset.
    return absl::DataLossError("a record holds no command that this release knows");
  } else {
    using Kind = std::variant_alternative_t<kIndex, core::AnyAction>;
    const FieldDescriptor* const field = ActionField<Kind>();
    if (record.action_case() != field->number()) return ToAction<kIndex + 1>(record);
    Kind command;
    DP_RETURN_IF_ERROR(Load(record.GetReflection()->GetMessage(record, field), &command));
    if constexpr (requires { Kind::kVersion; }) command.version = VersionOf(record);
    return command;
  }
}

}  // namespace

Record ToRecord(const core::Command& command) {
  Record record;
  *record.mutable_at() = ToProto(command.at);
  record.set_actor(command.actor);
  std::visit([&](const auto& action) { Fill(action, &record); }, command.action);
  return record;
}

absl::StatusOr<core::Command> FromRecord(const Record& record) {
  DP_RETURN_IF_ERROR(CheckVersion(record));
  DP_ASSIGN_OR_RETURN(core::Action action, ToAction(record));
  return core::Command{FromProto(record.at()), std::move(action), record.actor()};
}

}  // namespace dp::server
