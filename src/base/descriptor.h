// An open file of the system.
#pragma once

#include <unistd.h>

#include <string_view>
#include <utility>

namespace zt {

// Owns a file descriptor; -1 is none. The destructor never throws.
class Descriptor {
 public:
  explicit Descriptor(int raw) : raw_(raw) {}
  ~Descriptor() {
    if (raw_ >= 0) ::close(raw_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int raw() const { return raw_; }
  int release() { return std::exchange(raw_, -1); }

 private:
  int raw_;
};

// All bytes, however many calls that takes. False, with errno, where the system refuses; some may be written then.
bool write_all(int raw, std::string_view bytes);

}  // namespace zt
