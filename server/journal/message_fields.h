#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/field_list.h"
#include "base/id.h"
#include "base/status.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "proto/convert/time.h"

// Converts structs to and from their messages by the structs' lists of fields: Save writes a
// struct, Load reads one. The message gives the numbers, the types on disk and what absence means.
// A field whose name the message lacks ends the program when the first struct of that type is
// converted. own_forms.h, to be included instead of this header, has the fields that the journal
// keeps in a way of their own. Pure; any thread.
//
// How a message holds a value:
// - an id as its number;
// - an enum as its value, counted from 1 if 0 means unspecified;
// - nothing for an optional without a value, and for a time that is infinite by default;
// - a map as repeated messages of key and value.

namespace dp::server {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// How the journal keeps a type, or some of its fields, in another way than its list says.
// Specialised in own_forms.h:
//
//   template <>
//   struct OwnForm<core::Drain> {
//     using Fields = FieldList<&core::Drain::at>;  // required if the type has a list
//     static void Save(const core::Drain& drain, journal::SavedDrain* proto);
//     static absl::Status Load(const journal::SavedDrain& proto, core::Drain* drain);
//   };
//
// Fields with neither Save nor Load are not kept.
template <typename T>
struct OwnForm {
  using Fields = FieldList<>;
};

template <typename T>
void Save(const T& value, Message* message);
// Before, `value` must be T(). Errors: DataLoss the message holds a value that this release does
// not know.
template <typename T>
absl::Status Load(const Message& message, T* value);

// DataLoss: the field has a value of a later release.
absl::Status UnknownValue(const FieldDescriptor& field, int value);

namespace fields {

template <typename T>
concept Enum = std::is_enum_v<T>;
template <typename T>
concept Time = std::same_as<T, absl::Time> || std::same_as<T, absl::Duration>;
template <typename T>
concept Container = !std::same_as<T, std::string> && requires(T value) {
  value.insert(value.end(), *value.begin());
};
template <typename T>
concept HasOwnForm = requires {
  &OwnForm<T>::Save;
};

inline bool IsInfinite(absl::Time time) {
  return time == absl::InfinitePast() || time == absl::InfiniteFuture();
}
inline bool IsInfinite(absl::Duration duration) { return duration == absl::InfiniteDuration(); }

// The member of a container, without the const of a map's key.
template <typename T>
struct Plain {
  using Type = T;
};
template <typename Key, typename T>
struct Plain<std::pair<const Key, T>> {
  using Type = std::pair<Key, T>;
};

// A field of a message, with the answers of its descriptor, which are slow. Made once for each.
struct Place {
  Place(const Message& message, const FieldDescriptor* field);

  bool Knows(int value) const { return value >= first_value && value <= last_value; }

  const FieldDescriptor* field;
  const Reflection* reflection;
  const google::protobuf::Descriptor* message_type;  // of the value; null if it is no message
  bool repeated;
  bool has_presence;
  int first_value = 0;  // of an enum, that the core counts as 0: 1 if 0 means unspecified
  int last_value = 0;
};
// The field with this number, or with this name. The message must have it.
Place PlaceOf(const Message& message, int number);
Place PlaceOf(const Message& message, std::string_view name);

// A message of this type as what it is.
template <typename Proto>
Proto& As(const google::protobuf::Descriptor* type, Message& message) {
  static const google::protobuf::Descriptor* const expected = Proto::descriptor();
  DP_CHECK(type == expected);
  return static_cast<Proto&>(message);
}
template <typename Proto>
const Proto& As(const google::protobuf::Descriptor* type, const Message& message) {
  return As<Proto>(type, const_cast<Message&>(message));
}

// Where a value is written.
class Target {
 public:
  Target(Message* message, const Place& place) : message_(message), in_(place) {}

  template <std::integral T>
  void Put(const T& value) const {
    if (value == 0 && !in_.repeated && !in_.has_presence) return;
    if constexpr (std::same_as<T, bool>) {
      in_.reflection->SetBool(message_, in_.field, value);
    } else if constexpr (std::same_as<T, int>) {
      in_.repeated ? in_.reflection->AddInt32(message_, in_.field, value)
                   : in_.reflection->SetInt32(message_, in_.field, value);
    } else if constexpr (std::same_as<T, uint32_t>) {
      in_.reflection->AddUInt32(message_, in_.field, value);
    } else if constexpr (std::is_signed_v<T>) {
      in_.reflection->SetInt64(message_, in_.field, value);
    } else {
      in_.reflection->SetUInt64(message_, in_.field, value);
    }
  }
  template <typename Tag>
  void Put(const Id<Tag>& id) const {
    Put(id.value());
  }
  template <Enum T>
  void Put(const T& value) const {
    const int number = static_cast<int>(value) + in_.first_value;
    DP_CHECK(in_.Knows(number));
    if (number != 0) in_.reflection->SetEnumValue(message_, in_.field, number);
  }
  void Put(const std::string& value) const {
    if (in_.repeated) {
      in_.reflection->AddString(message_, in_.field, value);
    } else if (!value.empty()) {
      in_.reflection->SetString(message_, in_.field, value);
    }
  }
  template <Time T>
  void Put(const T& value) const {
    As<decltype(ToProto(value))>(in_.message_type, *Within()) = ToProto(value);
  }
  template <typename T>
  void Put(const std::optional<T>& value) const {
    if (in_.repeated) {  // of messages with one field
      Message* const message = Within();
      if (value.has_value()) Target(message, PlaceOf(*message, 1)).Put(*value);
    } else if (value.has_value()) {
      Put(*value);
    }
  }
  template <typename First, typename Second>
  void Put(const std::pair<First, Second>& value) const {
    Message* const message = Within();
    Target(message, PlaceOf(*message, 1)).Put(value.first);
    Target(message, PlaceOf(*message, 2)).Put(value.second);
  }
  template <Container T>
  void Put(const T& values) const {
    for (const auto& value : values) Put(value);
  }
  // Any other type has a message.
  template <typename T>
  void Put(const T& value) const {
    Save(value, Within());
  }

 private:
  Message* Within() const {
    return in_.repeated ? in_.reflection->AddMessage(message_, in_.field)
                        : in_.reflection->MutableMessage(message_, in_.field);
  }

  Message* const message_;
  const Place& in_;
};

// Where a value is read.
class Source {
 public:
  static constexpr int kSingular = -1;

  Source(const Message& message, const Place& place, int index = kSingular)
      : message_(message), in_(place), index_(index) {}

  template <std::integral T>
  absl::Status Get(T* value) const {
    if (in_.has_presence && !present()) return absl::OkStatus();
    if constexpr (std::same_as<T, bool>) {
      *value = in_.reflection->GetBool(message_, in_.field);
    } else if constexpr (std::same_as<T, int>) {
      *value = in_.repeated ? in_.reflection->GetRepeatedInt32(message_, in_.field, index_)
                            : in_.reflection->GetInt32(message_, in_.field);
    } else if constexpr (std::same_as<T, uint32_t>) {
      *value = in_.reflection->GetRepeatedUInt32(message_, in_.field, index_);
    } else if constexpr (std::is_signed_v<T>) {
      *value = in_.reflection->GetInt64(message_, in_.field);
    } else {
      *value = in_.reflection->GetUInt64(message_, in_.field);
    }
    return absl::OkStatus();
  }
  template <typename Tag>
  absl::Status Get(Id<Tag>* id) const {
    *id = Id<Tag>(in_.reflection->GetUInt64(message_, in_.field));
    return absl::OkStatus();
  }
  template <Enum T>
  absl::Status Get(T* value) const {
    const int number = in_.reflection->GetEnumValue(message_, in_.field);
    if (!in_.Knows(number)) return UnknownValue(*in_.field, number);
    *value = static_cast<T>(number - in_.first_value);
    return absl::OkStatus();
  }
  absl::Status Get(std::string* value) const {
    *value = in_.repeated
                 ? in_.reflection->GetRepeatedStringReference(message_, in_.field, index_, value)
                 : in_.reflection->GetStringReference(message_, in_.field, value);
    return absl::OkStatus();
  }
  template <Time T>
  absl::Status Get(T* value) const {
    if (IsInfinite(*value) && !in_.repeated && !present()) return absl::OkStatus();
    *value = FromProto(As<decltype(ToProto(*value))>(in_.message_type, within()));
    return absl::OkStatus();
  }
  template <typename T>
  absl::Status Get(std::optional<T>* value) const {
    if (in_.repeated) return Source(within(), PlaceOf(within(), 1)).Get(value);
    if (!present()) return absl::OkStatus();
    return Get(&value->emplace());
  }
  template <typename First, typename Second>
  absl::Status Get(std::pair<First, Second>* value) const {
    DP_RETURN_IF_ERROR(Source(within(), PlaceOf(within(), 1)).Get(&value->first));
    return Source(within(), PlaceOf(within(), 2)).Get(&value->second);
  }
  template <Container T>
  absl::Status Get(T* values) const {
    const int size = in_.reflection->FieldSize(message_, in_.field);
    for (int i = 0; i < size; ++i) {
      typename Plain<typename T::value_type>::Type value = {};
      DP_RETURN_IF_ERROR(Source(message_, in_, i).Get(&value));
      values->insert(values->end(), std::move(value));
    }
    return absl::OkStatus();
  }
  template <typename T>
  absl::Status Get(T* value) const {
    return Load(within(), value);
  }

 private:
  bool present() const { return in_.reflection->HasField(message_, in_.field); }
  const Message& within() const {
    return in_.repeated ? in_.reflection->GetRepeatedMessage(message_, in_.field, index_)
                        : in_.reflection->GetMessage(message_, in_.field);
  }

  const Message& message_;
  const Place& in_;
  const int index_;
};

// Whether the journal keeps the member as the list says.
template <typename T, auto kMember>
constexpr bool Follows() {
  if constexpr (Field<kMember>::Name() == "version" && requires { T::kVersion; }) {
    return false;  // a record keeps the version of its command
  } else {
    return !OwnForm<T>::Fields::template Has<kMember>();
  }
}

// The field of T's message that keeps the member.
template <typename T, auto kMember>
const Place& PlaceOfMember(const Message& message) {
  static const Place& place = *new Place(PlaceOf(message, Field<kMember>::Name()));
  return place;
}

template <typename T, typename Proto>
void SaveOwnForm(void (*save)(const T&, Proto*), const T& value, Message* message) {
  save(value, &As<Proto>(message->GetDescriptor(), *message));
}
template <typename T, typename Proto>
absl::Status LoadOwnForm(absl::Status (*load)(const Proto&, T*), const Message& message, T* value) {
  return load(As<Proto>(message.GetDescriptor(), message), value);
}

}  // namespace fields

template <typename T>
void Save(const T& value, Message* message) {
  if constexpr (HasFields<T>) {
    ForEachField<T>([&](auto field) {
      constexpr auto kMember = field.kMember;
      if constexpr (fields::Follows<T, kMember>()) {
        const auto& member = value.*kMember;
        // First, so that a field that the message lacks is noticed at any value.
        const fields::Place& place = fields::PlaceOfMember<T, kMember>(*message);
        if constexpr (fields::Time<std::remove_cvref_t<decltype(member)>>) {
          static const T& usual = *new T();
          if (fields::IsInfinite(member) && member == usual.*kMember) return;
        }
        fields::Target(message, place).Put(member);
      }
    });
  }
  if constexpr (fields::HasOwnForm<T>) fields::SaveOwnForm(&OwnForm<T>::Save, value, message);
}

template <typename T>
absl::Status Load(const Message& message, T* value) {
  absl::Status status;
  if constexpr (HasFields<T>) {
    ForEachField<T>([&](auto field) {
      constexpr auto kMember = field.kMember;
      if constexpr (fields::Follows<T, kMember>()) {
        if (!status.ok()) return;
        status = fields::Source(message, fields::PlaceOfMember<T, kMember>(message))
                     .Get(&(value->*kMember));
      }
    });
  }
  if constexpr (fields::HasOwnForm<T>) {
    if (status.ok()) status = fields::LoadOwnForm(&OwnForm<T>::Load, message, value);
  }
  return status;
}

}  // namespace dp::server
