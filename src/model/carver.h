// Deals out pieces of one allocation.
#ifndef TANDEM_MODEL_CARVER_H_
#define TANDEM_MODEL_CARVER_H_

#include <cstddef>

namespace tandem::model {

// Pieces of a region, aligned to 64 bytes; without a region (null) it only counts them, and the
// pieces are null.
class Carver {
 public:
  explicit Carver(std::byte* at) : at_(at) {}
  template <class T>
  T* Take(size_t count) {
    T* piece = at_ == nullptr ? nullptr : reinterpret_cast<T*>(at_ + used_);
    used_ += (count * sizeof(T) + 63) / 64 * 64;
    return piece;
  }
  float* Floats(size_t count) { return Take<float>(count); }
  size_t used() const { return used_; }

 private:
  std::byte* at_;
  size_t used_ = 0;
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_CARVER_H_
