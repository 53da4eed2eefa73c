#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/key_values.h"

namespace dp::wire {

// Limits of one message. The protocol announces lengths before the bytes, so a breach is known
// before anything is allocated for it.
struct Limits {
  size_t key_bytes = size_t{8} << 10;       // one key, the widest that PyTorch's server accepts
  size_t value_bytes = size_t{8} << 20;     // one value, likewise
  size_t keys = size_t{128} << 10;          // keys of one message, likewise
  size_t message_bytes = size_t{64} << 20;  // a whole message: what one connection may buffer

  // For a server in front of a store with these limits. All that the store accepts passes, and all
  // that PyTorch's server accepts; a narrower store rejects the excess itself.
  static Limits For(const KeyValueLimits& store);
};

// A message without its code: its strings in the order of the wire, and its number.
struct Fields {
  std::vector<std::string> strings;
  int64_t number = 0;

  bool operator==(const Fields&) const = default;
};

// A shape spells the fields of a message, one letter each, in the order of the wire. All numbers
// are little-endian; a string is its length in 64 bits, then its bytes.
//
//     b  a number of 8 bits      k  a string bounded as a key
//     u  a number of 32 bits     v  a string bounded as a value
//     n  a number of 64 bits     ?  the rest only if the number before it is positive
//     *  a count in 64 bits; the rest of the shape is repeated as often
//     +  as *, but both sides know the count and it is not sent
using Shape = const char*;

void AppendNumber(int64_t number, std::string* out);
void AppendString(absl::string_view bytes, std::string* out);

// Appends `fields`, which must fit `shape`.
void AppendFields(Shape shape, const Fields& fields, std::string* out);

// Takes the fields of one message from bytes that arrive in pieces of any size. Keeps only bytes of
// the current message, and no more of them than allowed. Pure; not thread-safe.
class FieldParser {
 public:
  explicit FieldParser(const Limits& limits) : limits_(limits) {}

  // How many bytes each message may take from now on; without a call, as many as the limits allow.
  void Allow(size_t bytes) { allowed_ = bytes; }
  // The bytes that the message has announced so far.
  size_t announced() const { return message_bytes_; }
  // True in the last string of the message: announced() is then all that the message takes.
  bool announces_all() const;
  // The message announces more than it may take, so its reader must stop.
  bool starved() const { return message_bytes_ > allowed_; }

  // Starts a message. `count` is the count of a '+'.
  void Begin(Shape shape, uint64_t count = 0);

  // Takes bytes from the front of `input`, never beyond the message. Returns whether the message is
  // complete; Finish must then fetch it. If not, all bytes have been taken, unless the message is
  // starved.
  // Errors: ResourceExhausted a limit; the stream can then not be followed any further.
  absl::StatusOr<bool> Take(absl::string_view* input);
  Fields Finish();

 private:
  bool TakeNumber(size_t bytes, absl::string_view* input, uint64_t* number);
  bool TakeBytes(absl::string_view* input);
  absl::Status BeginItems(uint64_t count);
  absl::Status BeginString(uint64_t bytes);
  // Goes to the next field, possibly the first of the next item.
  void Advance();

  const Limits limits_;
  Shape next_ = "";          // the current field, and those after it
  Shape item_ = "";          // the shape of the repeated part
  uint64_t items_left_ = 0;  // including the current one
  bool in_string_ = false;   // its length is known
  uint64_t string_bytes_left_ = 0;
  uint64_t message_bytes_ = 0;  // announced; 0 between messages
  uint64_t allowed_ = ~uint64_t{0};
  unsigned char digits_[8] = {};  // of an incomplete number
  size_t digits_taken_ = 0;
  Fields fields_;
};

}  // namespace dp::wire
