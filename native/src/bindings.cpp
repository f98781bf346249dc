#include "bindings.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "cpu.h"
#include "engine.h"
#include "limits.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stentor {
namespace {

using Floats = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using FloatMatrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

const MicroKernels& find_kernels(const std::string& backend, const MicroKernels* emulated) {
  const CpuFeatures& cpu = cpu_features();
  if (!cpu.avx512_bf16) throw std::runtime_error("stentor-native cannot run here: " + unsupported_reason());
  if (emulated != nullptr && backend == "emulated") return *emulated;
  if (backend == "amx" && !cpu.amx_bf16)
    throw std::invalid_argument("the processor has no AMX, or Linux did not grant it");
  if (backend == "avx512") return kAvx512Kernels;
  if (backend == "amx") return kAmxKernels;
  if (backend == "auto") return cpu.amx_bf16 ? kAmxKernels : kAvx512Kernels;
  throw std::invalid_argument("unknown backend " + backend);
}

ModelShape checked(const ModelShape& shape) {
  const bool good = shape.mels > 0 && shape.width > 0 && shape.width % kHeadWidth == 0 &&
                    shape.heads() <= kMaxQueries && shape.encoder_layers > 0 && shape.decoder_layers > 0 &&
                    shape.vocabulary > 0;
  if (!good) throw std::invalid_argument("not the shape of a Whisper network");
  return shape;
}

// Asks Python for tensors one by one, so that a large model is never in memory twice.
std::unique_ptr<Model> load(const ModelShape& shape, const nb::callable& tensor, bool quantized) {
  nb::object last;
  return std::make_unique<Model>(
      checked(shape),
      [&](const std::string& name, std::size_t count) {
        last = tensor(name);
        const Floats array = nb::cast<Floats>(last);
        if (array.size() != count)
          throw std::invalid_argument(name + " has " + std::to_string(array.size()) + " elements, not " +
                                      std::to_string(count));
        return array.data();
      },
      quantized);
}

void check_tokens(const std::vector<int>& tokens, int vocabulary, const char* what) {
  if (std::any_of(tokens.begin(), tokens.end(), [&](int token) { return token < 0 || token >= vocabulary; }))
    throw std::invalid_argument(std::string(what) + " holds a token outside the vocabulary");
}

void submit(Engine& engine, std::uint64_t id, const std::optional<FloatMatrix>& mel, const EncodedAudio& audio,
            std::vector<int> prompt, const std::string& kind, int start, const Times& times, float temperature,
            std::uint64_t seed, int max_tokens, std::vector<int> probed, bool urgent, int beams) {
  const ModelShape& shape = engine.model().shape;
  Request request;
  request.id = id;
  request.kind = kind == "probe" ? Kind::probe : kind == "align" ? Kind::align : Kind::transcribe;
  if (mel.has_value() == (audio != nullptr)) throw std::invalid_argument("give either mel or audio");
  if (mel) {
    if (static_cast<int>(mel->shape(0)) != shape.mels || mel->shape(1) != kMelFrames)
      throw std::invalid_argument("mel must be (" + std::to_string(shape.mels) + ", " + std::to_string(kMelFrames) +
                                  ")");
    request.mel = Buffer<float>(mel->size());
    std::copy_n(mel->data(), mel->size(), request.mel.data());
  }
  if (prompt.empty() || prompt.size() > kMaxPositions) throw std::invalid_argument("a prompt has 1 to 448 tokens");
  check_tokens(prompt, shape.vocabulary, "the prompt");
  check_tokens(probed, shape.vocabulary, "probed");
  if (!(temperature >= 0)) throw std::invalid_argument("a temperature is not negative");
  if (beams < 1 || beams > engine.max_beams())
    throw std::invalid_argument("a request has 1 to " + std::to_string(engine.max_beams()) + " beams");
  request.beams = beams;
  request.audio = audio;
  request.prompt = std::move(prompt);
  request.start = start;
  request.times = times;
  request.temperature = temperature;
  request.seed = seed;
  request.max_tokens = max_tokens;
  request.probed = std::move(probed);
  request.urgent = urgent;
  engine.submit(std::move(request));
}

nb::object alignment_of(const Event& event, int heads) {
  if (event.alignment.empty()) return nb::none();
  const std::size_t rows = event.alignment.size() / kFrames / heads;
  auto* values = new std::vector<float>(event.alignment);
  nb::capsule owner(values, [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, float, nb::ndim<3>>(
      values->data(), {rows, static_cast<std::size_t>(heads), static_cast<std::size_t>(kFrames)}, owner));
}

// EncodedAudio is a shared_ptr; Python holds it inside this.
struct AudioHold {
  EncodedAudio audio;
};

}  // namespace

void bind_engine(nb::module_& module, const MicroKernels* emulated) {
  module.def("unsupported_reason", &unsupported_reason, "Why no backend runs here; empty where one does.");
  module.def("usable_processors", &usable_processors, "Processors granted by affinity and cgroup.");
  module.def("backend", [] {
    return std::string(!cpu_features().avx512_bf16 ? "" : cpu_features().amx_bf16 ? "amx" : "avx512");
  });

  module.def(
      "measure_limits",
      [emulated](const std::string& backend, int threads) {
        const MicroKernels& micro = find_kernels(backend, emulated);
        return std::make_pair(measure_operations_per_s(micro, threads), measure_read_bytes_per_s(threads));
      },
      "backend"_a, "threads"_a, nb::call_guard<nb::gil_scoped_release>());

  nb::class_<AudioHold>(module, "EncodedAudio", "What the encoder made of a window; kept for a second request.")
      .def_prop_ro("nbytes", [](const AudioHold& hold) { return hold.audio->bytes(); })
      .def("numpy", [](const AudioHold& hold) {
        const std::size_t width = hold.audio->size() / kPaddedFrames;
        auto* values = new std::vector<float>(kFrames * width);
        for (std::size_t i = 0; i < values->size(); ++i)
          (*values)[i] = to_float((*hold.audio)[i]);
        nb::capsule owner(values, [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
        return nb::ndarray<nb::numpy, float, nb::ndim<2>>(values->data(), {static_cast<std::size_t>(kFrames), width},
                                                          owner);
      });

  nb::class_<Event>(module, "Event")
      .def_ro("id", &Event::id)
      .def_prop_ro("what",
                   [](const Event& event) { return event.what == Event::What::finished ? "finished" : "aborted"; })
      .def_prop_ro("audio",
                   [](const Event& event) -> std::optional<AudioHold> {
                     if (event.audio == nullptr) return std::nullopt;
                     return AudioHold{event.audio};
                   })
      .def_ro("tokens", &Event::tokens)
      .def_ro("log_probabilities", &Event::log_probabilities)
      .def_ro("went_on", &Event::went_on)
      .def_ro("no_speech_probability", &Event::no_speech_probability)
      .def_ro("probabilities", &Event::probabilities)
      .def("alignment", &alignment_of, "heads"_a);

  nb::class_<Vocabulary>(module, "Vocabulary")
      .def(nb::init<>())
      .def_rw("size", &Vocabulary::size)
      .def_rw("end_of_text", &Vocabulary::end_of_text)
      .def_rw("no_timestamps", &Vocabulary::no_timestamps)
      .def_rw("timestamp_begin", &Vocabulary::timestamp_begin)
      .def_rw("no_speech", &Vocabulary::no_speech)
      .def_rw("suppressed", &Vocabulary::suppressed)
      .def_rw("suppressed_at_begin", &Vocabulary::suppressed_at_begin)
      .def_rw("max_initial_timestamp", &Vocabulary::max_initial_timestamp);

  nb::class_<Engine>(module, "Engine")
      .def(
          "__init__",
          [emulated](Engine* self, const nb::callable& tensor, int mels, int width, int encoder_layers,
                     int decoder_layers, const Vocabulary& vocabulary, std::vector<std::pair<int, int>> alignment_heads,
                     int max_batch, int max_beams, int threads, double encode_share, double patient_share,
                     const std::string& backend, bool quantized) {
            const MicroKernels& micro = find_kernels(backend, emulated);
            if (max_batch < 1) throw std::invalid_argument("max_batch is at least 1");
            if (max_beams < 1 || max_beams > kMaxBeams)
              throw std::invalid_argument("max_beams is 1 to " + std::to_string(kMaxBeams));
            check_tokens(vocabulary.suppressed, vocabulary.size, "suppressed");
            check_tokens(vocabulary.suppressed_at_begin, vocabulary.size, "suppressed_at_begin");
            ModelShape shape{mels, width, encoder_layers, decoder_layers, vocabulary.size};
            for (auto [layer, head] : alignment_heads)
              if (layer < 0 || layer >= decoder_layers || head < 0 || head >= shape.heads())
                throw std::invalid_argument("an alignment head is outside the network");
            auto model = load(shape, tensor, quantized && micro.quantized_product != nullptr);
            new (self) Engine(
                std::move(model), micro, vocabulary, std::move(alignment_heads),
                {max_batch, max_beams, threads > 0 ? threads : usable_processors(), encode_share, patient_share});
          },
          "tensor"_a, nb::kw_only(), "mels"_a, "width"_a, "encoder_layers"_a, "decoder_layers"_a, "vocabulary"_a,
          "alignment_heads"_a, "max_batch"_a, "max_beams"_a = 1, "threads"_a = 0, "encode_share"_a = 0.9,
          "patient_share"_a = 0.125, "backend"_a = "auto", "quantized"_a = false)
      .def(
          "submit",
          [](Engine& engine, std::uint64_t id, const std::optional<FloatMatrix>& mel, const AudioHold* audio,
             std::vector<int> prompt, const std::string& kind, int start, bool timestamps, int words_before,
             float temperature, std::uint64_t seed, int max_tokens, std::vector<int> probed, bool urgent, int beams) {
            submit(engine, id, mel, audio ? audio->audio : nullptr, std::move(prompt), kind, start,
                   {timestamps, words_before}, temperature, seed, max_tokens, std::move(probed), urgent, beams);
          },
          "id"_a, nb::kw_only(), "mel"_a = nb::none(), "audio"_a = nb::none(), "prompt"_a, "kind"_a = "transcribe",
          "start"_a = 0, "timestamps"_a = true, "words_before"_a = 0, "temperature"_a = 0.0f, "seed"_a = 0,
          "max_tokens"_a = 224, "probed"_a = std::vector<int>(), "urgent"_a = false, "beams"_a = 1)
      .def("abort", &Engine::abort, "ids"_a)
      .def("events", &Engine::events, "timeout_s"_a, nb::call_guard<nb::gil_scoped_release>())
      .def("close", &Engine::close, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("failure", &Engine::failure)
      .def_prop_ro("backend", [](const Engine& engine) { return std::string(engine.micro().name); })
      .def_prop_ro("quantized", [](const Engine& engine) { return engine.model().quantized; })
      .def_prop_ro("threads", &Engine::threads)
      .def_prop_ro("shared_bytes", &Engine::shared_bytes)
      .def_prop_ro("slot_bytes", &Engine::slot_bytes)
      .def_prop_ro("statistics", [](const Engine& engine) {
        const EngineStatistics s = engine.statistics();
        nb::dict result;
        result["steps"] = s.steps;
        result["rows"] = s.rows;
        result["encoded"] = s.encoded;
        result["step_s"] = s.step_s;
        result["encode_s"] = s.encode_s;
        return result;
      });
}

}  // namespace stentor
