#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

// Initial inputs, and how targets take inputs apart. A target NAME is a file NAME_fuzz.cc with two
// functions in the namespace dp::fuzz::NAME:
//
//   void Run(absl::string_view input);    // aborts if the parser breaks its contract
//   std::vector<std::string> Seeds();     // initial inputs beside the files in corpus/NAME

namespace dp::fuzz {

// The requests of real clients of a TCPStore: every verb of every dialect, from a connection's
// first byte on.
std::vector<std::string> WireSeeds();

// Calls `hear` for each piece of an input: a byte for the client, the length, the bytes.
void ForEachPiece(absl::string_view input,
                  const std::function<void(uint8_t who, absl::string_view bytes)>& hear);
// The inputs, and the same inputs as pieces of two clients in turns.
std::vector<std::string> InPieces(const std::vector<std::string>& inputs);

// Takes the first byte off an input, to choose what the rest is for; 0 if the input is empty.
uint8_t TakeChoice(absl::string_view* input);
// The choice, then the input.
std::string Chosen(uint8_t choice, absl::string_view input);
// Takes a part behind its length in two bytes; what is left if that is shorter.
absl::string_view TakeSized(absl::string_view* input);
// The length, then the bytes.
std::string Sized(absl::string_view bytes);
// The part up to `separator`, which is taken off with it; all of the input if it has none.
absl::string_view TakePart(absl::string_view* input, char separator);

}  // namespace dp::fuzz
