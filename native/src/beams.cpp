#include "beams.h"

#include <algorithm>
#include <utility>

namespace stentor {
namespace {

struct Candidate {
  const Beam* parent;
  Choice choice;
  float sum;
};

Beam child_of(const Candidate& candidate, int end_of_text) {
  Beam beam = *candidate.parent;
  beam.add(candidate.choice, end_of_text);
  return beam;
}

}  // namespace

void Beam::add(const Choice& choice, int end_of_text) {
  log_probabilities.push_back(choice.log_probability);
  sum += choice.log_probability;
  if (choice.token == end_of_text) return;
  if (choice.instead_of_end) went_on.push_back(static_cast<int>(tokens.size()));
  tokens.push_back(choice.token);
}

bool Beams::advance(const std::vector<std::vector<Choice>>& following, int end_of_text, int position) {
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < live_.size(); ++i)
    for (const Choice& choice : following[i])
      candidates.push_back({&live_[i], choice, live_[i].sum + choice.log_probability});
  std::stable_sort(candidates.begin(), candidates.end(), [](auto& a, auto& b) { return a.sum > b.sum; });
  std::vector<Beam> next;
  for (const Candidate& candidate : candidates) {
    if (candidate.choice.token == end_of_text) {
      if (static_cast<int>(ended_.size()) < width_) ended_.push_back(child_of(candidate, end_of_text));
      continue;
    }
    Beam beam = child_of(candidate, end_of_text);
    if (position < kMaxPositions) beam.tracks[position] = static_cast<std::uint8_t>(next.size());
    next.push_back(std::move(beam));
    if (static_cast<int>(next.size()) == width_) break;
  }
  live_ = std::move(next);
  return static_cast<int>(ended_.size()) < width_ && !live_.empty();
}

Beam Beams::best() {
  if (static_cast<int>(ended_.size()) < width_) ended_.insert(ended_.end(), live_.begin(), live_.end());
  const auto score = [](const Beam& beam) { return beam.sum / std::max<std::size_t>(1, beam.tokens.size()); };
  return *std::max_element(ended_.begin(), ended_.end(), [&](auto& a, auto& b) { return score(a) < score(b); });
}

}  // namespace stentor
