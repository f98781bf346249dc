#include "model.h"

#include <cmath>

#include "kernels.h"

namespace stentor {
namespace {

// Reads the tensors of one network under their names and counts what they take in memory.
class Reader {
 public:
  Reader(const ModelShape& shape, const TensorSource& tensor) : shape_(shape), tensor_(tensor) {}

  std::size_t bytes = 0;

  Buffer<float> floats(const std::string& name, std::size_t count, std::size_t padded) {
    const float* values = tensor_(name, count);
    Buffer<float> result(padded);
    std::copy(values, values + count, result.data());
    bytes += result.bytes();
    return result;
  }

  PackedWeight packed(const float* weight, int outputs, int inputs, std::ptrdiff_t output_stride,
                      std::ptrdiff_t input_stride = 1, float scale = 1.0f) {
    PackedWeight result(weight, outputs, inputs, output_stride, input_stride, scale);
    bytes += result.bytes();
    return result;
  }

  Norm norm(const std::string& name) {
    const std::size_t width = static_cast<std::size_t>(shape_.width);
    return {floats(name + "/gamma", width, width), floats(name + "/beta", width, width)};
  }

  Buffer<float> bias(const std::string& name, int outputs) {
    const std::size_t count = static_cast<std::size_t>(outputs);
    return floats(name + "/bias", count, round_up(count, kPairOfPanels));
  }

  Dense dense(const std::string& name, int outputs, int inputs, bool quantized = false) {
    const float* weight = tensor_(name + "/weight", static_cast<std::size_t>(outputs) * inputs);
    if (quantized) {
      QuantizedWeight result(weight, outputs, inputs);
      bytes += result.bytes();
      return {{}, std::move(result), bias(name, outputs)};
    }
    PackedWeight result = packed(weight, outputs, inputs, inputs);
    return {std::move(result), {}, bias(name, outputs)};
  }

  // A convolution over frames as a product: [outputs][channels][taps] becomes [outputs][taps x channels], since
  // in memory [frames][channels] the three frames that an output sees are one contiguous row.
  Dense convolution(const std::string& name, int channels) {
    const int inputs = kConvolutionTaps * channels;
    const float* weight = tensor_(name + "/weight", static_cast<std::size_t>(shape_.width) * inputs);
    std::vector<float> by_tap(static_cast<std::size_t>(shape_.width) * inputs);
    for (int n = 0; n < shape_.width; ++n)
      for (int c = 0; c < channels; ++c)
        for (int tap = 0; tap < kConvolutionTaps; ++tap)
          by_tap[static_cast<std::size_t>(n) * inputs + tap * channels + c] =
              weight[(static_cast<std::size_t>(n) * channels + c) * kConvolutionTaps + tap];
    PackedWeight result = packed(by_tap.data(), shape_.width, inputs, inputs);
    return {std::move(result), {}, bias(name, shape_.width)};
  }

  FeedForward feed_forward(const std::string& name, bool quantized = false) {
    FeedForward result;
    result.norm = norm(name + "/layer_norm");
    result.up = dense(name + "/linear_0", shape_.inner(), shape_.width, quantized);
    result.down = dense(name + "/linear_1", shape_.width, shape_.inner(), quantized);
    return result;
  }

  AbsorbedAttention absorbed(const std::string& name) {
    const int width = shape_.width;
    const std::ptrdiff_t head_size = static_cast<std::ptrdiff_t>(kHeadWidth) * width;
    AbsorbedAttention result;
    result.norm = norm(name + "/layer_norm");
    result.query = dense(name + "/linear_0", width, width);
    result.out = dense(name + "/linear_2", width, width);
    // linear_1 holds the rows of all keys, then those of all values.
    const Buffer<float> bias = floats(name + "/linear_1/bias", 2 * static_cast<std::size_t>(width), 2 * width);
    const float* weight = tensor_(name + "/linear_1/weight", 2 * static_cast<std::size_t>(width) * width);
    const float scale = 1.0f / std::sqrt(static_cast<float>(kHeadWidth));
    for (int head = 0; head < shape_.heads(); ++head) {
      const float* key = weight + head * head_size;
      const float* value = weight + static_cast<std::ptrdiff_t>(width) * width + head * head_size;
      result.to_keys.push_back(packed(key, width, kHeadWidth, 1, width, scale));
      Dense to_value{packed(value, kHeadWidth, width, width), {}, Buffer<float>(kHeadWidth)};
      std::copy_n(bias.data() + width + head * kHeadWidth, kHeadWidth, to_value.bias.data());
      result.to_values.push_back(std::move(to_value));
    }
    return result;
  }

 private:
  const ModelShape& shape_;
  const TensorSource& tensor_;
};

std::string layer_name(const char* part, int layer) { return std::string(part) + "/layer_" + std::to_string(layer); }

}  // namespace

Model::Model(const ModelShape& given, const TensorSource& tensor, bool in_8_bits) : shape(given), quantized(in_8_bits) {
  Reader reader(shape, tensor);
  const std::size_t width = static_cast<std::size_t>(shape.width);

  convolution1 = reader.convolution("encoder/conv1", shape.mels);
  convolution2 = reader.convolution("encoder/conv2", shape.width);
  frame_positions = reader.floats("encoder/position_encodings/encodings", kFrames * width, kPaddedFrames * width);
  for (int i = 0; i < shape.encoder_layers; ++i) {
    const std::string name = layer_name("encoder", i);
    EncoderLayer layer;
    layer.norm = reader.norm(name + "/self_attention/layer_norm");
    layer.qkv = reader.dense(name + "/self_attention/linear_0", 3 * shape.width, shape.width, quantized);
    layer.out = reader.dense(name + "/self_attention/linear_1", shape.width, shape.width, quantized);
    layer.feed_forward = reader.feed_forward(name + "/ffn", quantized);
    encoder.push_back(std::move(layer));
  }
  encoder_norm = reader.norm("encoder/layer_norm");

  const std::size_t embedding_count = static_cast<std::size_t>(shape.vocabulary) * width;
  const float* embedding = tensor("decoder/embeddings/weight", embedding_count);
  embeddings = Buffer<bf16>(embedding_count);
  for (std::size_t i = 0; i < embedding_count; ++i)
    embeddings[i] = to_bf16(embedding[i]);
  // Every Whisper projects back through its embeddings.
  projection = reader.packed(embedding, shape.vocabulary, shape.width, shape.width);
  token_positions = reader.floats("decoder/position_encodings/encodings", kMaxPositions * width, kMaxPositions * width);
  for (int i = 0; i < shape.decoder_layers; ++i) {
    const std::string name = layer_name("decoder", i);
    DecoderLayer layer;
    layer.norm = reader.norm(name + "/self_attention/layer_norm");
    layer.qkv = reader.dense(name + "/self_attention/linear_0", 3 * shape.width, shape.width);
    layer.out = reader.dense(name + "/self_attention/linear_1", shape.width, shape.width);
    layer.cross = reader.absorbed(name + "/attention");
    layer.feed_forward = reader.feed_forward(name + "/ffn");
    decoder.push_back(std::move(layer));
  }
  decoder_norm = reader.norm("decoder/layer_norm");
  bytes_ = reader.bytes + embeddings.bytes();
}

}  // namespace stentor
