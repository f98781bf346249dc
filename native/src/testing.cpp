// The tests' module: single kernels on every backend, the emulated tiles among them. Not in the wheel.
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "bindings.h"
#include "cpu.h"
#include "kernels.h"
#include "memory.h"
#include "pack.h"
#include "quantized.h"
#include "threads.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stentor {

extern const MicroKernels kEmulatedKernels;

namespace {

using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Result = nb::ndarray<nb::numpy, float>;

const MicroKernels& kernels(const std::string& backend) {
  if (backend == "emulated") return kEmulatedKernels;
  if (backend == "avx512") return kAvx512Kernels;
  if (backend == "amx" && cpu_features().amx_bf16) return kAmxKernels;
  throw std::invalid_argument("no backend " + backend + " here");
}

Result result(std::vector<float> values, std::vector<std::size_t> shape) {
  auto* kept = new std::vector<float>(std::move(values));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
  return Result(kept->data(), shape.size(), shape.data(), owner);
}

// Rows are padded as the kernels demand, and the padding is poison: no result may depend on it.
Buffer<bf16> rounded(const Matrix& from, std::size_t row_step, bool poison = true) {
  const std::size_t rows = round_up(from.shape(0), row_step), width = from.shape(1);
  Buffer<bf16> to(rows * width);
  for (std::size_t i = 0; i < from.size(); ++i)
    to[i] = to_bf16(from.data()[i]);
  for (std::size_t i = from.size(); poison && i < to.size(); ++i)
    to[i] = to_bf16(1e30f);
  return to;
}

std::vector<float> floats(const Buffer<bf16>& from, std::size_t count) {
  std::vector<float> to(count);
  for (std::size_t i = 0; i < count; ++i)
    to[i] = to_float(from[i]);
  return to;
}

Result run_linear(const std::string& backend, const Matrix& a, const Matrix& weight, const Vector& bias,
                  const std::string& finish, const Matrix& addend) {
  const int rows = static_cast<int>(a.shape(0)), inputs = static_cast<int>(a.shape(1));
  const int outputs = static_cast<int>(weight.shape(0));
  const std::size_t padded = round_up(outputs, kPairOfPanels);
  const MicroKernels& micro = kernels(backend);
  const PackedWeight packed(weight.data(), outputs, inputs, inputs);
  const Buffer<bf16> left = rounded(a, 32);
  Buffer<float> shift(padded), out(rows * padded), more(rows * padded);
  Buffer<bf16> narrow(rows * padded);
  std::copy_n(bias.data(), outputs, shift.data());
  for (int i = 0; i < rows; ++i)
    for (int n = 0; n < outputs; ++n)
      out[i * padded + n] = more[i * padded + n] = addend(i, n);
  Linear task;
  task.a = left.data();
  task.lda = inputs;
  task.rows = rows;
  task.panels = packed.panels();
  task.tiles = packed.tiles();
  task.last_pair = packed.pairs();
  task.bias = shift.data();
  task.finish = finish == "bf16"         ? Finish::bf16
                : finish == "gelu_bf16"  ? Finish::gelu_bf16
                : finish == "add_float"  ? Finish::add_float
                : finish == "gelu_float" ? Finish::gelu_float
                                         : Finish::plain_float;
  const bool is_narrow = task.finish == Finish::bf16 || task.finish == Finish::gelu_bf16;
  task.out = is_narrow ? static_cast<void*>(narrow.data()) : out.data();
  task.ldo = static_cast<std::ptrdiff_t>(padded);
  task.addend = more.data();
  micro.enter();
  linear(micro, task);
  std::vector<float> values;
  for (int i = 0; i < rows; ++i)
    for (int n = 0; n < outputs; ++n)
      values.push_back(is_narrow ? to_float(narrow[i * padded + n]) : out[i * padded + n]);
  return result(std::move(values), {a.shape(0), weight.shape(0)});
}

// What rows in 8 bits stand for, and their product: float [rows][inputs + outputs].
Result run_quantized_linear(const Matrix& a, const Matrix& weight, const Vector& bias) {
  const std::size_t rows = a.shape(0), inputs = a.shape(1), outputs = weight.shape(0);
  const QuantizedWeight packed(weight.data(), static_cast<int>(outputs), static_cast<int>(inputs));
  const std::size_t groups = static_cast<std::size_t>(packed.groups()), padded = round_up(outputs, kPairOfPanels);
  const Buffer<bf16> left = rounded(a, 1);
  QuantizedRows quantized(rows, inputs);
  std::fill_n(quantized.values.data(), quantized.values.size(), 99);  // the padding weighs nothing
  quantize(left.data(), static_cast<std::ptrdiff_t>(inputs), static_cast<int>(rows), static_cast<int>(inputs),
           quantized.values.data(), quantized.ranges.data());
  Buffer<float> shift(padded), out(rows * padded);
  std::copy_n(bias.data(), outputs, shift.data());
  QuantizedLinear task;
  task.a = quantized.values.data();
  task.ranges = quantized.ranges.data();
  task.rows = static_cast<int>(rows);
  task.panels = packed.panels();
  task.groups = packed.groups();
  task.last_pair = packed.pairs();
  task.bias = shift.data();
  task.finish = Finish::plain_float;
  task.out = out.data();
  task.ldo = static_cast<std::ptrdiff_t>(padded);
  linear(kAvx512Kernels, task);
  std::vector<float> values;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t k = 0; k < inputs; ++k) {
      const GroupRange& range = quantized.ranges[i * groups + k / kGroupInputs];
      values.push_back(range.scale * static_cast<float>(quantized.values[i * groups * kGroupInputs + k] - range.zero));
    }
    values.insert(values.end(), out.data() + i * padded, out.data() + i * padded + outputs);
  }
  return result(std::move(values), {rows, inputs + outputs});
}

Result run_layer_norm(const Matrix& x, const Vector& gain, const Vector& shift) {
  Buffer<bf16> out(x.size());
  layer_norm(x.data(), gain.data(), shift.data(), static_cast<int>(x.shape(0)), static_cast<int>(x.shape(1)),
             out.data());
  return result(floats(out, x.size()), {x.shape(0), x.shape(1)});
}

// qkv float [frames][3 * heads * 64].
Result run_encoder_attention(const std::string& backend, const Matrix& qkv, int cuts) {
  const int frames = static_cast<int>(qkv.shape(0)), width = static_cast<int>(qkv.shape(1)) / 3;
  const MicroKernels& micro = kernels(backend);
  const Buffer<bf16> input = rounded(qkv, 32);
  Buffer<bf16> out(static_cast<std::size_t>(frames) * width);
  Buffer<char> scratch(encoder_attention_scratch(frames));
  micro.enter();
  for (int head = 0; head < width / kHeadWidth; ++head)
    for (int cut = 0; cut < cuts; ++cut) {
      // Cuts at multiples of 16, so that rows read past a cut exist.
      const int step = static_cast<int>(round_up((frames + cuts - 1) / cuts, 16));
      const int first = std::min(frames, cut * step);
      encoder_attention(micro, {input.data() + head * kHeadWidth, 3 * width, width, frames, first,
                                std::min(frames, first + step), out.data() + head * kHeadWidth, width, scratch.data()});
    }
  return result(floats(out, out.size()), {qkv.shape(0), static_cast<std::size_t>(width)});
}

Result run_self_attention(const Vector& q, const Matrix& keys, const Matrix& values, int tracks) {
  Buffer<bf16> query(kHeadWidth), out(kHeadWidth);
  for (int i = 0; i < kHeadWidth; ++i)
    query[i] = to_bf16(q(i));
  const Buffer<bf16> k = rounded(keys, 1), v = rounded(values, 1);
  // Keys and values lie in the tracks in turns, as those of beams do.
  const int length = static_cast<int>(keys.shape(0)) / tracks;
  std::vector<std::uint8_t> track_of(length);
  for (int t = 0; t < length; ++t)
    track_of[t] = static_cast<std::uint8_t>(t % tracks);
  self_attention({query.data(), k.data(), v.data(), track_of.data(), static_cast<std::ptrdiff_t>(length) * kHeadWidth,
                  length, out.data()});
  return result(floats(out, kHeadWidth), {kHeadWidth});
}

// Contexts, and the scores below them: float [count][width + frames].
Result run_cross_attention(const std::string& backend, const Matrix& queries, const Matrix& x) {
  const int count = static_cast<int>(queries.shape(0)), width = static_cast<int>(queries.shape(1));
  const int frames = static_cast<int>(x.shape(0));
  const MicroKernels& micro = kernels(backend);
  const Buffer<bf16> input = rounded(queries, 1), audio = rounded(x, 32, false);
  Buffer<bf16> out(queries.size());
  Buffer<float> scores(static_cast<std::size_t>(count) * frames);
  Buffer<char> scratch(cross_attention_scratch(width));
  micro.enter();
  cross_attention(micro, {input.data(), count, width, audio.data(), frames, out.data(), scores.data(), scratch.data()});
  std::vector<float> values;
  for (int q = 0; q < count; ++q) {
    for (int d = 0; d < width; ++d)
      values.push_back(to_float(out[static_cast<std::size_t>(q) * width + d]));
    values.insert(values.end(), scores.data() + static_cast<std::size_t>(q) * frames,
                  scores.data() + static_cast<std::size_t>(q + 1) * frames);
  }
  return result(std::move(values), {queries.shape(0), static_cast<std::size_t>(width + frames)});
}

std::vector<float> run_summarize(const Vector& logits, const Vector& barred, int first, int last, float scale) {
  const LogitSummary s = summarize({logits.data(), barred.data(), first, last}, scale);
  return {s.max, static_cast<float>(s.token), s.log_sum};
}

std::vector<std::pair<float, int>> run_take_top(const Vector& logits, const Vector& barred, int first, int last,
                                                int count) {
  std::vector<TokenLogit> top(count, {-INFINITY, -1});
  take_top({logits.data(), barred.data(), first, last}, count, top.data());
  std::vector<std::pair<float, int>> found;
  for (const TokenLogit& each : top)
    found.emplace_back(each.logit, each.token);
  return found;
}

int run_find_mass(const Vector& logits, const Vector& barred, int first, int last, float scale, float shift,
                  double mass) {
  return find_mass({logits.data(), barred.data(), first, last}, scale, shift, mass);
}

std::vector<int> count_in_threads(int threads, int pieces, int loops) {
  ThreadPool pool(threads, kAvx512Kernels.enter);
  std::vector<int> counts(pieces);
  for (int loop = 0; loop < loops; ++loop)
    pool.each(pieces, [&](int piece, int) { ++counts[piece]; });
  return counts;
}

}  // namespace
}  // namespace stentor

NB_MODULE(_testing, module) {
  using namespace stentor;
  bind_engine(module, &kEmulatedKernels);
  module.def("has_amx", [] { return cpu_features().amx_bf16; });
  module.def("linear", &run_linear);
  module.def("quantized_linear", &run_quantized_linear);
  module.def("layer_norm", &run_layer_norm);
  module.def("encoder_attention", &run_encoder_attention);
  module.def("self_attention", &run_self_attention);
  module.def("cross_attention", &run_cross_attention);
  module.def("summarize", &run_summarize);
  module.def("take_top", &run_take_top);
  module.def("find_mass", &run_find_mass);
  module.def("count_in_threads", &count_in_threads);
}
