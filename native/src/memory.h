// Aligned memory for tensors: zeroed, owned, never resized.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace stentor {

// A cache line and a 512-bit register; tile rows are as wide.
constexpr std::size_t kLineBytes = 64;

// From here on a buffer asks for huge pages: its rows are read in strides that would else miss the TLB.
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

constexpr std::size_t round_up(std::size_t value, std::size_t step) { return (value + step - 1) / step * step; }

template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t count) : count_(count) {
    if (count == 0) return;
    const std::size_t bytes = count * sizeof(T);
    const std::size_t alignment = bytes >= kHugePageBytes ? kHugePageBytes : kLineBytes;
    data_ = static_cast<T*>(std::aligned_alloc(alignment, round_up(bytes, alignment)));
    if (data_ == nullptr) throw std::bad_alloc();
    if (alignment == kHugePageBytes) madvise(data_, bytes, MADV_HUGEPAGE);  // a wish; refusal costs speed only
    std::memset(static_cast<void*>(data_), 0, bytes);
  }
  ~Buffer() { std::free(data_); }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](std::size_t index) { return data_[index]; }
  const T& operator[](std::size_t index) const { return data_[index]; }
  std::size_t size() const { return count_; }
  std::size_t bytes() const { return count_ * sizeof(T); }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
  }

  T* data_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace stentor
