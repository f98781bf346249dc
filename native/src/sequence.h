// What is asked of the engine, what it answers, and what it knows in between.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
  Buffer<float> mel;         // float [mels][kMelFrames], or empty where `audio` is given
  EncodedAudio audio;        // an earlier answer's
  bool urgent = false;       // which lane it takes; see Engine::run
  std::vector<int> prompt;   // 1 to kMaxPositions tokens; prompts of any lengths share a batch
  int start = 0;             // index in the prompt of the start of the transcript, where no-speech is read
  bool timestamps = true;    // whether the timestamp grammar holds
  float temperature = 0.0f;  // 0 is greedy
  std::uint64_t seed = 0;    // of the draws at other temperatures
  int max_tokens = 224;      // source: openai/whisper decoding.py, sample_len = n_text_ctx / 2
  std::vector<int> probed;
};

struct Event {
  enum class What { finished, aborted };

  std::uint64_t id = 0;
  What what = What::finished;
  EncodedAudio audio;                    // of what finished, for a further request on the same chunk
  std::vector<int> tokens;               // of the transcript, without the end token
  std::vector<float> log_probabilities;  // of each token, and of the end token if the model chose it
  float no_speech_probability = 0.0f;
  std::vector<float> probabilities;  // probe: of `probed`, summing to 1; align: of each prompt token but the first
  std::vector<float> alignment;      // align: float [prompt][alignment heads][kFrames], raw scores
};

// A request in a slot.
struct Sequence {
  explicit Sequence(Request given) : request(std::move(given)), random(request.seed), audio(request.audio) {
    answer.id = request.id;
  }

  bool encoded() const { return audio != nullptr; }
  int position() const { return position_; }

  Request request;
  Random random;
  EncodedAudio audio;
  EncodedAudio encoding;  // while the encoder fills it
  int pieces_done = 0;    // of the encoder
  int slot = -1;
  bool done = false;
  Event answer;

  // Rows that the sequence could put into the next step: what is left of the prompt, then a token at a time.
  int rows_ready() const {
    const int left = static_cast<int>(request.prompt.size()) - position_;
    return left > 0 ? left : 1;
  }
  int next_token() const {
    const int prompt = static_cast<int>(request.prompt.size());
    return position_ < prompt ? request.prompt[position_] : answer.tokens[position_ - prompt];
  }
  void advance() { ++position_; }

 private:
  int position_ = 0;  // of the next row in the decoder
};

}  // namespace stentor
