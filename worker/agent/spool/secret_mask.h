#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dp::worker {

// Hides known secrets in a rank's output: each of their bytes becomes '*', so all offsets stay.
//
// Each line of a value is hidden wherever it stands, without the blanks around it. A line of fewer
// than kSecretValueBytesMin bytes is not hidden. Neither are other forms of a value, such as its
// base64. No hidden text contains a line break, so output that ends with a line break is complete.
//
// Pure; a value. The work for a text grows with its length, hardly with the number of secrets.
class SecretMask {
 public:
  // How a text was cut out of a stream. Where it was cut, parts of a secret are hidden too.
  struct Cut {
    bool before = false;  // unknown bytes precede the text
    bool after = false;   // the stream ends within a secret, if the text does
  };

  // Hides nothing.
  SecretMask() = default;
  explicit SecretMask(const std::vector<std::string>& values);
  // Hides all but line breaks: for secrets that are not known any more.
  static SecretMask OfEverything();

  void Hide(std::string* text, Cut cut) const;
  // How many of the last bytes may be the beginning of a secret, whose rest is still to come.
  size_t OpenBytes(std::string_view text) const;
  // How many bytes before and behind a text may belong to a secret that the text is a part of.
  size_t reach() const { return longest_ == 0 ? 0 : longest_ - 1; }

 private:
  // A text to hide.
  struct Pattern {
    std::string text;
    int shorter = kNone;  // the longest other pattern with which it begins
  };
  static constexpr int kNone = -1;
  // Chosen by a hash of a pattern's first bytes.
  static constexpr size_t kHashes = 1 << 16;

  static size_t HashOf(const char* bytes);
  void Add(std::string_view line, std::vector<std::string>* texts) const;
  // Bytes of the longest pattern at the beginning of `text`; 0: there is none.
  size_t LongestAt(std::string_view text) const;
  // How many of the first bytes may be the end of a secret.
  size_t EndBytes(std::string_view text) const;

  bool everything_ = false;
  size_t longest_ = 0;
  std::vector<Pattern> patterns_;  // sorted
  std::vector<bool> begins_;       // by hash: a pattern may begin so; empty without patterns
};

// The values of secrets as the spool keeps them, for the masks of later daemons. Pure.
std::string SecretsText(const std::vector<std::string>& values);
// The values again; nothing if the text is damaged, or holds none.
std::optional<std::vector<std::string>> SecretsInText(const std::string& text);

}  // namespace dp::worker
