// bfloat16: the upper half of a float. All weights and activations that enter a product are kept in it.
//
// Only arithmetic that any x86-64 has is used here: this header is shared by all translation units.
#pragma once

#include <cstdint>
#include <cstring>

namespace stentor {

using bf16 = std::uint16_t;

// Rounds to nearest, ties to even, as the processor's own conversion does. Weights are finite.
static inline bf16 to_bf16(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits += 0x7fff + ((bits >> 16) & 1);
  return static_cast<bf16>(bits >> 16);
}

static inline float to_float(bf16 value) {
  const std::uint32_t bits = static_cast<std::uint32_t>(value) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

}  // namespace stentor
