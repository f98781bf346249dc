// Weights in the order in which block_product reads them.
#pragma once

#include <cstddef>

#include "bf16.h"
#include "memory.h"
#include "micro.h"

namespace stentor {

// A weight of `outputs` x `inputs`, rounded to bf16 and packed in panels (see micro.h). Outputs are padded with
// zeros to a multiple of 32, inputs likewise.
class PackedWeight {
 public:
  PackedWeight() = default;

  // weight float [outputs][inputs], element (n, k) at weight[n * output_stride + k * input_stride]; times scale.
  PackedWeight(const float* weight, int outputs, int inputs, std::ptrdiff_t output_stride,
               std::ptrdiff_t input_stride = 1, float scale = 1.0f)
      : pairs_(static_cast<int>(round_up(outputs, kPairOfPanels)) / kPairOfPanels),
        tiles_(static_cast<int>(round_up(inputs, kTileInputs)) / kTileInputs),
        panels_(static_cast<std::size_t>(pairs_) * 2 * tiles_ * kTileElements) {
    for (int n = 0; n < outputs; ++n) {
      bf16* panel = panels_.data() + static_cast<std::size_t>(n / kPanel) * tiles_ * kTileElements + n % kPanel * 2;
      const float* row = weight + n * output_stride;
      for (int k = 0; k < inputs; ++k)
        panel[static_cast<std::size_t>(k / 2) * 2 * kPanel + k % 2] = to_bf16(row[k * input_stride] * scale);
    }
  }

  const bf16* panels() const { return panels_.data(); }
  int pairs() const { return pairs_; }  // of panels: outputs / 32
  int tiles() const { return tiles_; }  // inputs / 32
  std::size_t bytes() const { return panels_.bytes(); }

 private:
  int pairs_ = 0, tiles_ = 0;
  Buffer<bf16> panels_;
};

}  // namespace stentor
