#include "client/dpctl/program/output_stream.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace dp::ctl {
namespace {

// Returns the number of bytes written; 0 if it must be tried again; -1 with errno on an error.
ssize_t WriteSome(int descriptor, const char* bytes, size_t count) {
  const ssize_t written = write(descriptor, bytes, count);
  if (written >= 0) return written;
  if (errno == EINTR) return 0;
  if (errno != EAGAIN) return -1;
  pollfd ready{.fd = descriptor, .events = POLLOUT, .revents = 0};
  (void)poll(&ready, 1, -1);  // the next write reports errors
  return 0;
}

}  // namespace

OutputStream::OutputStream(int descriptor) : std::ostream(nullptr), buffer_(descriptor) {
  rdbuf(&buffer_);
}

OutputStream::Buffer::Buffer(int descriptor) : descriptor_(descriptor) {
  setp(bytes_.data(), bytes_.data() + bytes_.size());
}

OutputStream::Buffer::int_type OutputStream::Buffer::overflow(int_type c) {
  if (!WriteAll()) return traits_type::eof();
  if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
  return traits_type::not_eof(c);
}

int OutputStream::Buffer::sync() { return WriteAll() ? 0 : -1; }

bool OutputStream::Buffer::WriteAll() {
  const char* next = pbase();
  while (next < pptr() && error_ == 0) {
    const ssize_t written = WriteSome(descriptor_, next, static_cast<size_t>(pptr() - next));
    if (written < 0) error_ = errno;
    if (written > 0) next += written;
  }
  setp(bytes_.data(), bytes_.data() + bytes_.size());
  return error_ == 0;
}

}  // namespace dp::ctl
