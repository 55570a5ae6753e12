#pragma once

#include <cstddef>
#include <new>

namespace tensorbus::model {

// The objects of a scenario, made anew in the same place.
template <typename Objects>
class Fresh {
 public:
  Fresh() { make(); }
  ~Fresh() { object()->~Objects(); }
  Fresh(const Fresh&) = delete;
  Fresh& operator=(const Fresh&) = delete;
  void make_again() {
    object()->~Objects();
    make();
  }
  Objects* operator->() noexcept { return object(); }

 private:
  void make() { new (bytes_) Objects(); }
  Objects* object() noexcept { return std::launder(reinterpret_cast<Objects*>(bytes_)); }

  alignas(Objects) std::byte bytes_[sizeof(Objects)];
};

}  // namespace tensorbus::model
