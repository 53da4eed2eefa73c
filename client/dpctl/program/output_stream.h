#pragma once

#include <array>
#include <ostream>
#include <streambuf>

namespace dp::ctl {

// A buffered stream to a descriptor, which the caller keeps. Unlike std::cout it remembers why a
// write failed. Unflushed output is lost at the end. Not thread-safe.
class OutputStream final : public std::ostream {
 public:
  explicit OutputStream(int descriptor);

  // errno of the failed write; 0 if none failed.
  int write_error() const { return buffer_.error(); }

 private:
  class Buffer final : public std::streambuf {
   public:
    explicit Buffer(int descriptor);
    int error() const { return error_; }

   protected:
    int_type overflow(int_type c) override;
    int sync() override;

   private:
    bool WriteAll();

    const int descriptor_;
    std::array<char, 8 << 10> bytes_;
    int error_ = 0;
  };

  Buffer buffer_;
};

}  // namespace dp::ctl
