#include "encoder.h"

#include <algorithm>

namespace stentor {
namespace {

// Rows that a thread takes through a whole layer at once: a multiple of both backends' blocks (12 and 32), few
// enough that normed and inner rows of small models stay in its second-level cache, many enough that the
// weights, which pass by once per block, come in on the side.
constexpr int kBlockRows = 96;
constexpr int kBlocks = kPaddedFrames / kBlockRows;

// Pieces that a head's queries are cut into, so that few heads still feed many threads.
constexpr int kQueryCuts = 4;

// Rows that may be read past the last frame of a padded convolution input.
constexpr int kSlackFrames = 2 * kPaddedFrames - kMelFrames + kConvolutionTaps + 1;

constexpr int kTransposeFrames = 100;

}  // namespace

Encoder::Encoder(const Model& model, const MicroKernels& micro, ThreadPool& pool)
    : model_(model), micro_(micro), pool_(pool) {
  const std::size_t width = static_cast<std::size_t>(model.shape.width);
  const std::size_t frames = kMelFrames + kSlackFrames;
  frames_ = Buffer<bf16>(frames * model.shape.mels + kTileInputs);
  convolved_ = Buffer<bf16>(frames * width);
  attended_ = Buffer<bf16>(kPaddedFrames * width);
  for (int thread = 0; thread < pool.size(); ++thread)
    workspaces_.push_back({Buffer<bf16>(kBlockRows * width), Buffer<bf16>(kBlockRows * 4 * width),
                           model.quantized ? QuantizedRows(kBlockRows, 4 * width) : QuantizedRows(),
                           Buffer<char>(encoder_attention_scratch(kFrames))});
}

std::size_t Encoder::bytes() const {
  std::size_t total = frames_.bytes() + convolved_.bytes() + attended_.bytes();
  for (const Workspace& space : workspaces_)
    total += space.normed.bytes() + space.inner.bytes() + space.quantized.bytes() + space.attention.bytes();
  return total;
}

void Encoder::compute(int piece, const float* mel, EncoderState& state, Buffer<bf16>& out) {
  if (piece == 0) return convolve(mel, state);
  attend(state);
  feed_forward(piece - 1, state, piece + 1 == pieces() ? &out : nullptr);
}

void Encoder::product(const Dense& dense, const bf16* a, std::ptrdiff_t lda, int rows, Finish finish, void* out,
                      std::ptrdiff_t ldo, const float* addend) const {
  const PackedWeight& weight = dense.weight;
  const LinearOutput output{rows, 0, weight.pairs(), dense.bias.data(), finish, out, ldo, addend};
  linear(micro_, Linear{output, a, lda, weight.panels(), weight.tiles()});
}

// Contiguous rows through what may be in 8 bits.
void Encoder::product(const Dense& dense, const bf16* a, std::ptrdiff_t inputs, int rows, QuantizedRows& space,
                      Finish finish, void* out, std::ptrdiff_t ldo) const {
  const QuantizedWeight& weight = dense.quantized;
  if (weight.groups() == 0) return product(dense, a, inputs, rows, finish, out, ldo);
  quantize(a, inputs, rows, static_cast<int>(inputs), space.values.data(), space.ranges.data());
  const LinearOutput output{rows, 0, weight.pairs(), dense.bias.data(), finish, out, ldo};
  linear(micro_, QuantizedLinear{output, space.values.data(), space.ranges.data(), weight.panels(), weight.groups()});
}

void Encoder::convolve(const float* mel, EncoderState& state) {
  const int mels = model_.shape.mels, width = model_.shape.width;
  pool_.each(kMelFrames / kTransposeFrames, [&](int piece, int) {
    for (int t = piece * kTransposeFrames; t < (piece + 1) * kTransposeFrames; ++t)
      for (int m = 0; m < mels; ++m)
        frames_[static_cast<std::size_t>(t + 1) * mels + m] =
            to_bf16(mel[static_cast<std::size_t>(m) * kMelFrames + t]);
  });
  // Frame 0 of each input is the padding before the first: an output sees the frames t, t + 1 and t + 2 there.
  pool_.each(2 * kBlocks, [&](int block, int) {
    const int first = block * kBlockRows, rows = std::min(kBlockRows, kMelFrames - first);
    if (rows <= 0) return;
    product(model_.convolution1, frames_.data() + static_cast<std::ptrdiff_t>(first) * mels, mels, rows,
            Finish::gelu_bf16, convolved_.data() + static_cast<std::ptrdiff_t>(first + 1) * width, width);
  });
  // Products write whole blocks of outputs but only real rows, so the frames behind the last stay silent.
  pool_.each(kBlocks, [&](int block, int thread) {
    const int first = block * kBlockRows;
    const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(first) * width;
    product(model_.convolution2, convolved_.data() + 2 * row, 2 * width, kBlockRows, Finish::gelu_float,
            state.residual.data() + row, width, model_.frame_positions.data() + row);
    project_qkv(model_.encoder[0], state, first, kBlockRows, workspaces_[thread]);
  });
}

void Encoder::project_qkv(const EncoderLayer& layer, EncoderState& state, int first, int rows, Workspace& space) {
  const std::ptrdiff_t width = model_.shape.width;
  layer_norm(state.residual.data() + first * width, layer.norm.gain.data(), layer.norm.shift.data(), rows,
             model_.shape.width, space.normed.data());
  product(layer.qkv, space.normed.data(), width, rows, space.quantized, Finish::bf16,
          state.qkv.data() + first * 3 * width, 3 * width);
}

void Encoder::attend(const EncoderState& state) {
  const int width = model_.shape.width, heads = model_.shape.heads();
  pool_.each(heads * kQueryCuts, [&](int piece, int thread) {
    const int head = piece / kQueryCuts, cut = piece % kQueryCuts;
    EncoderAttention task;
    task.head = state.qkv.data() + head * kHeadWidth;
    task.ld = 3 * width;
    task.part = width;
    task.frames = kFrames;
    task.first = cut * kPaddedFrames / kQueryCuts;
    task.last = std::min(kFrames, (cut + 1) * kPaddedFrames / kQueryCuts);
    task.out = attended_.data() + head * kHeadWidth;
    task.ldo = width;
    task.scratch = workspaces_[thread].attention.data();
    encoder_attention(micro_, task);
  });
}

void Encoder::feed_forward(int index, EncoderState& state, Buffer<bf16>* out) {
  const EncoderLayer& layer = model_.encoder[index];
  const FeedForward& ffn = layer.feed_forward;
  const std::ptrdiff_t width = model_.shape.width, inner = model_.shape.inner();
  pool_.each(kBlocks, [&](int block, int thread) {
    const int first = block * kBlockRows, rows = std::min(kBlockRows, kFrames - first);
    Workspace& space = workspaces_[thread];
    float* residual = state.residual.data() + first * width;
    product(layer.out, attended_.data() + first * width, width, rows, space.quantized, Finish::add_float, residual,
            width);
    layer_norm(residual, ffn.norm.gain.data(), ffn.norm.shift.data(), rows, model_.shape.width, space.normed.data());
    product(ffn.up, space.normed.data(), width, rows, space.quantized, Finish::gelu_bf16, space.inner.data(), inner);
    product(ffn.down, space.inner.data(), inner, rows, space.quantized, Finish::add_float, residual, width);
    if (out == nullptr)
      project_qkv(model_.encoder[index + 1], state, first, rows, space);
    else
      layer_norm(residual, model_.encoder_norm.gain.data(), model_.encoder_norm.shift.data(), rows, model_.shape.width,
                 out->data() + first * width);
  });
}

}  // namespace stentor
