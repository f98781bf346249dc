// Beam search: several transcripts of one sequence at once, of which the likeliest wins.
#pragma once

#include <cstdint>
#include <vector>

#include "grammar.h"
#include "kernels.h"

namespace stentor {

constexpr int kMaxBeams = 32;

// A transcript on its way.
struct Beam {
  std::vector<int> tokens;               // without the prompt and the end token
  std::vector<float> log_probabilities;  // of each token, and of the end token if it was chosen
  float sum = 0.0f;                      // of log_probabilities
  std::vector<int> went_on;              // where in `tokens` a word stands instead of a likelier end
  // In which of the slot's tracks of keys and values each position lies. A beam writes into the track of its own
  // number; what it has in common with others stays where it was written, and nothing is ever copied.
  std::vector<std::uint8_t> tracks = std::vector<std::uint8_t>(kMaxPositions);

  void add(const Choice& choice, int end_of_text);
};

// The beams of a sequence. Source: openai/whisper decoding.py, BeamSearchDecoder with patience 1, and
// MaximumLikelihoodRanker without a length penalty.
class Beams {
 public:
  explicit Beams(int width) : width_(width), live_(1) {}

  int width() const { return width_; }
  const std::vector<Beam>& live() const { return live_; }
  Beam& only() { return live_.front(); }

  // Goes on from what may follow each live beam, likeliest first: beam i's next row is at `position`, in its
  // track i. False when the search has ended.
  bool advance(const std::vector<std::vector<Choice>>& following, int end_of_text, int position);

  // The likeliest for its length, of those that ended or, where too few did, of all.
  Beam best();

 private:
  int width_;
  std::vector<Beam> live_;
  std::vector<Beam> ended_;
};

}  // namespace stentor
