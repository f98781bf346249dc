#include "decoder.h"

#include <algorithm>
#include <cstring>

namespace stentor {
namespace {

// Rows beyond one per track, for prompts: a whole previous text of 224 tokens takes a few steps.
constexpr int kPromptRows = 64;

// Pairs of panels that a thread takes at once in a product of few rows: 128 outputs.
constexpr int kPairsAtOnce = 4;

constexpr std::ptrdiff_t kValues = kMaxPositions * kHeadWidth;  // from a head's keys to its values

constexpr std::size_t kRowBlock = 32;  // products may read and write whole blocks of rows

}  // namespace

Decoder::Decoder(const Model& model, const MicroKernels& micro, ThreadPool& pool, int slots, int tracks,
                 std::vector<std::pair<int, int>> alignment_heads)
    : model_(model),
      micro_(micro),
      pool_(pool),
      slots_(slots),
      tracks_(tracks),
      max_rows_(slots * tracks + kPromptRows),
      alignment_heads_(std::move(alignment_heads)) {
  const std::size_t rows = round_up(max_rows_, kRowBlock) + kRowBlock;
  const std::size_t width = static_cast<std::size_t>(model.shape.width);
  cache_ = Buffer<bf16>(slot_bytes() / sizeof(bf16) * slots);
  residual_ = Buffer<float>(rows * width);
  normed_ = Buffer<bf16>(rows * width);
  wide_ = Buffer<bf16>(rows * model.shape.inner());
  attended_ = Buffer<bf16>(rows * width);
  absorbed_ = Buffer<bf16>(rows * width * model.shape.heads());
  logits_ = Buffer<float>(static_cast<std::size_t>(max_rows_) * model.shape.padded_vocabulary());
  for (int thread = 0; thread < pool.size(); ++thread)
    workspaces_.push_back({Buffer<char>(cross_attention_scratch(model.shape.width)),
                           Buffer<float>(static_cast<std::size_t>(kMaxQueries) * kFrames)});
}

std::size_t Decoder::slot_bytes() const {
  return static_cast<std::size_t>(model_.shape.decoder_layers) * tracks_ * track_stride() * sizeof(bf16);
}

std::size_t Decoder::bytes() const {
  std::size_t total = cache_.bytes() + residual_.bytes() + normed_.bytes() + wide_.bytes() + attended_.bytes() +
                      absorbed_.bytes() + logits_.bytes();
  for (const Workspace& space : workspaces_)
    total += space.attention.bytes() + space.scores.bytes();
  return total;
}

std::ptrdiff_t Decoder::track_stride() const {
  return static_cast<std::ptrdiff_t>(model_.shape.width) * 2 * kMaxPositions;
}

bf16* Decoder::keys(int layer, int slot, int track, int head) {
  const std::ptrdiff_t index = (static_cast<std::ptrdiff_t>(layer) * slots_ + slot) * tracks_ + track;
  return cache_.data() + index * track_stride() + static_cast<std::ptrdiff_t>(head) * 2 * kMaxPositions * kHeadWidth;
}

void Decoder::step(const std::vector<DecoderRow>& rows) {
  const int count = static_cast<int>(rows.size());
  const int width = model_.shape.width;
  embed(rows);
  for (int index = 0; index < model_.shape.decoder_layers; ++index) {
    const DecoderLayer& layer = model_.decoder[index];
    normalize(layer.norm, count);
    product(layer.qkv.weight, layer.qkv.bias.data(), normed_.data(), width, count, Finish::bf16, wide_.data(),
            3 * width);
    attend_to_text(index, rows);
    product(layer.out.weight, layer.out.bias.data(), attended_.data(), width, count, Finish::add_float,
            residual_.data(), width);
    attend_to_audio(index, rows);
    feed_forward(layer.feed_forward, count);
  }
  project(rows);
}

void Decoder::embed(const std::vector<DecoderRow>& rows) {
  const std::size_t width = static_cast<std::size_t>(model_.shape.width);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bf16* token = model_.embeddings.data() + rows[i].token * width;
    const float* position = model_.token_positions.data() + rows[i].position * width;
    for (std::size_t d = 0; d < width; ++d)
      residual_[i * width + d] = to_float(token[d]) + position[d];
  }
}

void Decoder::normalize(const Norm& norm, int rows) {
  const std::ptrdiff_t width = model_.shape.width;
  pool_.each((rows + 3) / 4, [&](int piece, int) {
    const std::ptrdiff_t first = 4 * piece;
    layer_norm(residual_.data() + first * width, norm.gain.data(), norm.shift.data(),
               std::min(4, rows - static_cast<int>(first)), model_.shape.width, normed_.data() + first * width);
  });
}

// A product of few rows: threads share the outputs, and each weight is read once.
void Decoder::product(const PackedWeight& weight, const float* bias, const bf16* a, std::ptrdiff_t lda, int rows,
                      Finish finish, void* out, std::ptrdiff_t ldo) {
  pool_.each((weight.pairs() + kPairsAtOnce - 1) / kPairsAtOnce, [&](int piece, int) {
    Linear task;
    task.a = a;
    task.lda = lda;
    task.rows = rows;
    task.panels = weight.panels();
    task.tiles = weight.tiles();
    task.first_pair = piece * kPairsAtOnce;
    task.last_pair = std::min(weight.pairs(), (piece + 1) * kPairsAtOnce);
    task.bias = bias;
    task.finish = finish;
    task.out = out;
    task.ldo = ldo;
    linear(micro_, task);
  });
}

void Decoder::attend_to_text(int layer, const std::vector<DecoderRow>& rows) {
  const int heads = model_.shape.heads(), count = static_cast<int>(rows.size());
  const std::ptrdiff_t width = model_.shape.width;
  // Rows of one sequence see each other: all keys must be there before any row attends.
  pool_.each(count, [&](int i, int) {
    const bf16* qkv = wide_.data() + i * 3 * width;
    for (int head = 0; head < heads; ++head) {
      bf16* key = keys(layer, rows[i].slot, rows[i].track, head) + rows[i].position * kHeadWidth;
      std::memcpy(key, qkv + width + head * kHeadWidth, kHeadWidth * sizeof(bf16));
      std::memcpy(key + kValues, qkv + 2 * width + head * kHeadWidth, kHeadWidth * sizeof(bf16));
    }
  });
  pool_.each(count, [&](int i, int) {
    for (int head = 0; head < heads; ++head) {
      const bf16* first = keys(layer, rows[i].slot, 0, head);
      self_attention({wide_.data() + i * 3 * width + head * kHeadWidth, first, first + kValues, rows[i].tracks,
                      track_stride(), rows[i].position + 1, attended_.data() + i * width + head * kHeadWidth});
    }
  });
}

void Decoder::attend_to_audio(int index, const std::vector<DecoderRow>& rows) {
  const AbsorbedAttention& cross = model_.decoder[index].cross;
  const int heads = model_.shape.heads(), count = static_cast<int>(rows.size());
  const std::ptrdiff_t width = model_.shape.width;
  normalize(cross.norm, count);
  product(cross.query.weight, cross.query.bias.data(), normed_.data(), width, count, Finish::bf16, wide_.data(), width);

  const int pairs = static_cast<int>(width) / kPairOfPanels;
  const int cuts = (pairs + kPairsAtOnce - 1) / kPairsAtOnce;
  pool_.each(heads * cuts, [&](int piece, int) {
    const int head = piece / cuts, cut = piece % cuts;
    Linear task;
    task.a = wide_.data() + head * kHeadWidth;
    task.lda = width;
    task.rows = count;
    task.panels = cross.to_keys[head].panels();
    task.tiles = cross.to_keys[head].tiles();
    task.first_pair = cut * kPairsAtOnce;
    task.last_pair = std::min(pairs, (cut + 1) * kPairsAtOnce);
    task.out = absorbed_.data() + head * width;
    task.ldo = heads * width;
    linear(micro_, task);
  });

  // Neighbouring rows of one slot attend together, so that a prompt reads the audio a few times and not once
  // per token.
  std::vector<std::pair<int, int>> groups;
  const int most = std::max(1, kMaxQueries / heads);
  for (int first = 0, last; first < count; first = last) {
    for (last = first + 1; last < count && last - first < most && rows[last].slot == rows[first].slot;)
      ++last;
    groups.emplace_back(first, last);
  }
  pool_.each(static_cast<int>(groups.size()), [&](int piece, int thread) {
    attend_group(index, rows, groups[piece].first, groups[piece].second, thread);
  });

  pool_.each(heads, [&](int head, int) {
    Linear task;
    task.a = absorbed_.data() + head * width;
    task.lda = heads * width;
    task.rows = count;
    task.panels = cross.to_values[head].weight.panels();
    task.tiles = cross.to_values[head].weight.tiles();
    task.last_pair = cross.to_values[head].weight.pairs();
    task.bias = cross.to_values[head].bias.data();
    task.out = attended_.data() + head * kHeadWidth;
    task.ldo = width;
    linear(micro_, task);
  });
  product(cross.out.weight, cross.out.bias.data(), attended_.data(), width, count, Finish::add_float, residual_.data(),
          width);
}

void Decoder::attend_group(int layer, const std::vector<DecoderRow>& rows, int first, int last, int thread) {
  const int heads = model_.shape.heads();
  const bool aligning = std::any_of(rows.begin() + first, rows.begin() + last, [](auto& row) { return row.alignment; });
  CrossAttention task;
  task.count = (last - first) * heads;
  task.width = model_.shape.width;
  task.queries = absorbed_.data() + static_cast<std::ptrdiff_t>(first) * heads * task.width;
  task.x = rows[first].audio;
  task.frames = kFrames;
  task.out = absorbed_.data() + static_cast<std::ptrdiff_t>(first) * heads * task.width;
  task.scores = aligning ? workspaces_[thread].scores.data() : nullptr;
  task.scratch = workspaces_[thread].attention.data();
  cross_attention(micro_, task);
  if (!aligning) return;
  for (int i = first; i < last; ++i) {
    if (rows[i].alignment == nullptr) continue;
    for (std::size_t k = 0; k < alignment_heads_.size(); ++k)
      if (alignment_heads_[k].first == layer)
        std::memcpy(rows[i].alignment + k * kFrames,
                    task.scores + (static_cast<std::size_t>(i - first) * heads + alignment_heads_[k].second) * kFrames,
                    kFrames * sizeof(float));
  }
}

void Decoder::feed_forward(const FeedForward& layer, int rows) {
  const int width = model_.shape.width, inner = model_.shape.inner();
  normalize(layer.norm, rows);
  product(layer.up.weight, layer.up.bias.data(), normed_.data(), width, rows, Finish::gelu_bf16, wide_.data(), inner);
  product(layer.down.weight, layer.down.bias.data(), wide_.data(), inner, rows, Finish::add_float, residual_.data(),
          width);
}

void Decoder::project(const std::vector<DecoderRow>& rows) {
  const std::ptrdiff_t width = model_.shape.width;
  int wanted = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].wants_logits) {
      layer_norm(residual_.data() + static_cast<std::ptrdiff_t>(i) * width, model_.decoder_norm.gain.data(),
                 model_.decoder_norm.shift.data(), 1, model_.shape.width, normed_.data() + wanted * width);
      ++wanted;
    }
  if (wanted > 0)
    product(model_.projection, nullptr, normed_.data(), width, wanted, Finish::plain_float, logits_.data(),
            model_.shape.padded_vocabulary());
}

}  // namespace stentor
