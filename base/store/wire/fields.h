#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/store/key_values.h"

namespace dp::wire {

// What one message may hold. The protocol announces lengths before the bytes, so a breach is known
// before anything is allocated for it.
struct Limits {
  size_t key_bytes = size_t{8} << 10;       // one key, the widest that PyTorch's server takes
  size_t value_bytes = size_t{8} << 20;     // one value, likewise
  size_t keys = size_t{128} << 10;          // keys of one message, likewise
  size_t message_bytes = size_t{64} << 20;  // a message altogether: what one connection may buffer

  // Of a server in front of a store that takes so much: all that the store takes passes, and what
  // PyTorch's server takes, which a narrower store refuses itself.
  static Limits For(const KeyValueLimits& store);
};

// What a message holds besides its code: its strings in the order of the wire, and its number.
struct Fields {
  std::vector<std::string> strings;
  int64_t number = 0;

  bool operator==(const Fields&) const = default;
};

// A shape spells the fields of a message, one letter each, in the order of the wire. All numbers
// are little-endian; a string is its length in 64 bits, then its bytes.
//
//   b  a number of 8 bits      k  a string bounded as a key     ?  the rest only if the number
//   u  a number of 32 bits     v  a string bounded as a value      before it is positive
//   n  a number of 64 bits     *  a count in 64 bits; the rest of the shape is there so many times
//                              +  likewise, but both sides know the count and it is not sent
using Shape = const char*;

void AppendNumber(int64_t number, std::string* out);
void AppendString(absl::string_view bytes, std::string* out);

// Appends `fields`, which must fit `shape`.
void AppendFields(Shape shape, const Fields& fields, std::string* out);

// Takes the fields of one message from bytes that come in pieces of any size. Pure; not
// thread-safe. It keeps no bytes but those of the message it is in, and of these no more than it
// was allowed.
class FieldParser {
 public:
  explicit FieldParser(const Limits& limits) : limits_(limits) {}

  // How many bytes each message may take from now on; without a call, what the limits say.
  void Allow(size_t bytes) { allowed_ = bytes; }
  // The bytes that the message announces so far.
  size_t announced() const { return message_bytes_; }
  // In a string: no other string comes after it, so announced() is all that the message takes.
  bool announces_all() const;
  // The message announces more than it may take, so its reader stops.
  bool starved() const { return message_bytes_ > allowed_; }

  // Starts a message. `count` is that of a '+'.
  void Begin(Shape shape, uint64_t count = 0);

  // Takes bytes from the front of `input`, never beyond the message. Returns whether it is
  // complete, and then it must be fetched by Finish. If not, all bytes have been taken, unless it
  // is starved.
  // Errors: ResourceExhausted a limit; then the stream cannot be followed any further.
  absl::StatusOr<bool> Take(absl::string_view* input);
  Fields Finish();

 private:
  bool TakeNumber(size_t bytes, absl::string_view* input, uint64_t* number);
  bool TakeBytes(absl::string_view* input);
  absl::Status BeginItems(uint64_t count);
  absl::Status BeginString(uint64_t bytes);
  // Goes to the next field, which may be the first of the next item.
  void Advance();

  const Limits limits_;
  Shape next_ = "";          // the field being taken, and those after it
  Shape item_ = "";          // the shape of what comes many times
  uint64_t items_left_ = 0;  // the one being taken included
  bool in_string_ = false;   // its length is known
  uint64_t string_bytes_left_ = 0;
  uint64_t message_bytes_ = 0;  // announced; 0 between messages
  uint64_t allowed_ = ~uint64_t{0};
  unsigned char digits_[8] = {};  // of a number that is not complete
  size_t digits_taken_ = 0;
  Fields fields_;
};

}  // namespace dp::wire
