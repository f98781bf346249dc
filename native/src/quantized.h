// Operands in 8 bits: integers are multiplied twice as fast as bf16 where there are no tiles (vpdpbusd, 64 products
// an instruction, vdpbf16ps 32), and weights take half the memory.
//
// Every 128 inputs, a group, have scales of their own, so that an outlier costs its neighbours their digits and no
// others: of each row and group, from the least to the greatest value (x = scale (q - zero), q 0 to 255), and of each
// output and group (w = scale q, q -127 to 127). With all layers of Whisper base's encoder in it, its output is 3 % of
// its length away from float32's; in bf16 it is 0.8 %, and with one scale a row and an output, as is common, 6 %.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "memory.h"
#include "micro.h"

namespace stentor {

// A weight of `outputs` x `inputs` in 8 bits. A panel of 16 outputs is a row of groups, as quantized_product reads
// them: 32 lines of 4 inputs x 16 outputs, a line of the outputs' negative sums, and a line of their scales. Outputs
// are padded with zeros to a multiple of 32, inputs to one of 128.
class QuantizedWeight {
 public:
  QuantizedWeight() = default;

  // weight float [outputs][inputs], contiguous.
  QuantizedWeight(const float* weight, int outputs, int inputs)
      : pairs_(static_cast<int>(round_up(outputs, kPairOfPanels)) / kPairOfPanels),
        groups_(static_cast<int>(round_up(inputs, kGroupInputs)) / kGroupInputs),
        panels_(static_cast<std::size_t>(pairs_) * 2 * groups_ * kGroupBytes) {
    for (int n = 0; n < outputs; ++n)
      for (int group = 0; group < groups_; ++group) {
        std::uint8_t* to = panels_.data() + (static_cast<std::size_t>(n / kPanel) * groups_ + group) * kGroupBytes;
        const int first = group * kGroupInputs;
        pack(weight + static_cast<std::size_t>(n) * inputs + first, std::min(kGroupInputs, inputs - first), n % kPanel,
             to);
      }
  }

  const std::uint8_t* panels() const { return panels_.data(); }
  int pairs() const { return pairs_; }    // of panels: outputs / 32
  int groups() const { return groups_; }  // inputs / 128
  std::size_t bytes() const { return panels_.bytes(); }

 private:
  static void pack(const float* weight, int count, int lane, std::uint8_t* to) {
    float greatest = 0;
    for (int k = 0; k < count; ++k)
      greatest = std::max(greatest, std::fabs(weight[k]));
    const float scale = greatest / 127.0f;
    std::int16_t negative_sum = 0;
    for (int k = 0; k < count; ++k) {
      const std::int8_t q = static_cast<std::int8_t>(scale > 0 ? std::lrint(weight[k] / scale) : 0);
      negative_sum = static_cast<std::int16_t>(negative_sum - q);
      to[k / 4 * kLineBytes + lane * 4 + k % 4] = static_cast<std::uint8_t>(q);
    }
    // Of the pair of 16 bits that an output has in the line of sums the second stays 0.
    std::memcpy(to + kGroupSums + lane * 4, &negative_sum, sizeof negative_sum);
    std::memcpy(to + kGroupScales + lane * 4, &scale, sizeof scale);
  }

  int pairs_ = 0, groups_ = 0;
  Buffer<std::uint8_t> panels_;
};

// Rows in 8 bits, room for `rows` of `inputs`.
struct QuantizedRows {
  QuantizedRows() = default;
  QuantizedRows(std::size_t rows, std::size_t inputs)
      : values(rows * round_up(inputs, kGroupInputs)), ranges(rows * (round_up(inputs, kGroupInputs) / kGroupInputs)) {}

  std::size_t bytes() const { return values.bytes() + ranges.bytes(); }

  Buffer<std::uint8_t> values;  // [row][inputs padded to groups]
  Buffer<GroupRange> ranges;    // [row][group]
};

}  // namespace stentor
