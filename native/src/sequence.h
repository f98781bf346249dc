// What is asked of the engine, what it answers, and what it knows in between.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "beams.h"
#include "encoder.h"
#include "grammar.h"

namespace stentor {

enum class Kind {
  transcribe,  // tokens after the prompt until the end of the text
  probe,       // one step: probabilities of `probed` after the prompt, e.g. of languages
  align,       // no choice: what the model thinks of a prompt that holds a whole transcript
};

struct Request {
  std::uint64_t id = 0;
  Kind kind = Kind::transcribe;
  Buffer<float> mel;        // float [mels][kMelFrames], or empty where `audio` is given
  EncodedAudio audio;       // an earlier answer's
  bool urgent = false;      // which lane it takes; see Engine::run
  std::vector<int> prompt;  // 1 to kMaxPositions tokens; prompts of any lengths share a batch
  int start = 0;            // index in the prompt of the start of the transcript, where no-speech is read
  Times times;
  float temperature = 0.0f;  // 0: the likeliest, by beams if there is more than one; else drawn
  int beams = 1;
  std::uint64_t seed = 0;  // of the draws at other temperatures
  int max_tokens = 224;    // source: openai/whisper decoding.py, sample_len = n_text_ctx / 2
  std::vector<int> probed;
};

struct Event {
  enum class What { finished, aborted };

  std::uint64_t id = 0;
  What what = What::finished;
  EncodedAudio audio;                    // of what finished, for a further request on the same chunk
  std::vector<int> tokens;               // of the transcript, without the end token
  std::vector<float> log_probabilities;  // of each token, and of the end token if the model chose it
  std::vector<int> went_on;              // where in `tokens` a word stands instead of a likelier end
  float no_speech_probability = 0.0f;
  std::vector<float> probabilities;  // probe: of `probed`, summing to 1; align: of each prompt token but the first
  std::vector<float> alignment;      // align: float [prompt][alignment heads][kFrames], raw scores
};

// A request in a slot.
struct Sequence {
  explicit Sequence(Request given)
      : request(std::move(given)), random(request.seed), audio(request.audio), beams(request.beams) {
    answer.id = request.id;
  }

  bool encoded() const { return audio != nullptr; }
  int position() const { return position_; }
  bool searches() const { return request.kind == Kind::transcribe && beams.width() > 1 && request.temperature == 0; }

  Request request;
  Random random;
  EncodedAudio audio;
  EncodedAudio encoding;  // while the encoder fills it
  int pieces_done = 0;    // of the encoder
  int slot = -1;
  bool done = false;
  Beams beams;
  std::vector<std::vector<Choice>> following;  // what may come after each live beam, likeliest first
  Event answer;

  // What is left of the prompt. Its rows may share a step; after it each live beam has a row in each step.
  int prompt_left() const { return static_cast<int>(request.prompt.size()) - position_; }
  int rows_least() const { return prompt_left() > 0 ? 1 : static_cast<int>(beams.live().size()); }
  void advance() { ++position_; }

  // Whether no token fits any more.
  bool is_full() const {
    const int count = beams.live().empty() ? 0 : static_cast<int>(beams.live().front().tokens.size());
    return count >= request.max_tokens || static_cast<int>(request.prompt.size()) + count >= kMaxPositions;
  }

  // The transcript that has won becomes the answer.
  void settle() {
    Beam won = searches() ? beams.best() : std::move(beams.only());
    answer.tokens = std::move(won.tokens);
    answer.log_probabilities = std::move(won.log_probabilities);
    answer.went_on = std::move(won.went_on);
  }

 private:
  int position_ = 0;  // of the next row in the decoder
};

}  // namespace stentor
