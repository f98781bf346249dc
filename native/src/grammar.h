// Which token comes next: Whisper's suppression and timestamp rules, then the choice.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels.h"
#include "memory.h"

namespace stentor {

// The vocabulary's landmarks and what its config bars.
struct Vocabulary {
  int size = 0;
  int end_of_text = 0;
  int no_timestamps = 0;
  int timestamp_begin = 0;               // timestamps are the tokens from here to the end
  int no_speech = -1;                    // or -1 where the vocabulary has none
  std::vector<int> suppressed;           // never chosen
  std::vector<int> suppressed_at_begin;  // not chosen as the first: a blank, the end
  int max_initial_timestamp = 50;        // in steps of 0.02 s; source: openai/whisper, max_initial_timestamp 1.0
};

// Random numbers of one sequence, the same whatever else is computed. Source: Steele, Lea and Flood, OOPSLA
// 2014, SplitMix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  double uniform();  // in [0, 1)

 private:
  std::uint64_t state_;
};

// What a request asks of times.
struct Times {
  bool wanted = true;  // whether the timestamp rules hold
  // A segment that begins before this time, a token, has words: the text does not end there. 0: any may stay empty.
  int words_before = 0;
};

struct Choice {
  int token;
  float log_probability;  // among the tokens that were allowed, at temperature 1
  bool instead_of_end;    // the end was likelier than all that was allowed, but words_before barred it
};

class Grammar {
 public:
  explicit Grammar(const Vocabulary& vocabulary);

  const Vocabulary& vocabulary() const { return vocabulary_; }

  // Chooses what follows `tokens`, those of the transcript so far without the prompt. Greedy at temperature 0.
  // With times, the rules are those of openai/whisper decoding.py, ApplyTimestampRules, and words_before.
  Choice choose(const float* logits, const std::vector<int>& tokens, const Times& times, float temperature,
                Random& random) const;

  // The likeliest of what may follow, best first: `count` of them, or fewer where the rules leave no more.
  std::vector<Choice> likeliest(const float* logits, const std::vector<int>& tokens, const Times& times,
                                int count) const;

  // The probability of `token` among all, e.g. that nobody speaks; 0 for -1.
  float probability(const float* logits, int token) const;

 private:
  struct Allowed {
    int text_first, text_last, time_first, time_last;
    bool needs_words;
  };
  // What the rules and the logits leave, and the logarithm of its mass.
  struct Field {
    LogitRange text, times;
    LogitSummary of_text, of_times;
    float log_sum;
    bool instead_of_end;
  };
  Field field(const float* logits, const std::vector<int>& tokens, const Times& times) const;
  Allowed allowed(const std::vector<int>& tokens, const Times& times) const;

  Vocabulary vocabulary_;
  Buffer<float> barred_, barred_at_begin_;  // float [size], 0 or -inf
};

}  // namespace stentor
