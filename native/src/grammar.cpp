#include "grammar.h"

#include <algorithm>
#include <cmath>

namespace stentor {
namespace {

constexpr float kNever = -INFINITY;

float add_logs(float a, float b) {
  const float more = std::max(a, b);
  return more == kNever ? kNever : more + std::log(std::exp(a - more) + std::exp(b - more));
}

}  // namespace

double Random::uniform() {
  state_ += 0x9e3779b97f4a7c15;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1.0p-53;
}

Grammar::Grammar(const Vocabulary& vocabulary)
    : vocabulary_(vocabulary), barred_(vocabulary.size), barred_at_begin_(vocabulary.size) {
  for (int token : vocabulary.suppressed)
    barred_[token] = kNever;
  barred_[vocabulary.no_timestamps] = kNever;
  std::copy_n(barred_.data(), vocabulary.size, barred_at_begin_.data());
  for (int token : vocabulary.suppressed_at_begin)
    barred_at_begin_[token] = kNever;
}

Grammar::Allowed Grammar::allowed(const std::vector<int>& tokens, const Times& times) const {
  const int begin = vocabulary_.timestamp_begin;
  Allowed all{0, begin, begin, vocabulary_.size, false};
  if (!times.wanted) return all;
  const auto is_time = [&](int token) { return token >= begin; };
  if (tokens.empty()) {
    all.text_last = 0;  // a transcript begins with a timestamp, and not a late one
    all.time_last = std::min(all.time_last, begin + vocabulary_.max_initial_timestamp + 1);
    return all;
  }
  const bool last_is_time = is_time(tokens.back());
  const bool time_before = tokens.size() < 2 || is_time(tokens[tokens.size() - 2]);
  if (last_is_time && time_before) {
    all.time_first = all.time_last;  // after a pair, or the first one: text
    all.needs_words = tokens.size() > 1 && tokens.back() < times.words_before;
    if (all.needs_words) all.text_last = vocabulary_.end_of_text;
  }
  if (last_is_time && !time_before) all.text_first = vocabulary_.end_of_text;  // its pair, or the end
  const auto latest = std::find_if(tokens.rbegin(), tokens.rend(), is_time);
  if (latest != tokens.rend()) {
    // Times do not go back, and a segment has a length: only a pair repeats its time.
    const bool pair = last_is_time && !time_before;
    all.time_first = std::max(all.time_first, pair ? *latest : *latest + 1);
  }
  return all;
}

Grammar::Field Grammar::field(const float* logits, const std::vector<int>& tokens, const Times& times) const {
  const Allowed all = allowed(tokens, times);
  const float* barred = tokens.empty() ? barred_at_begin_.data() : barred_.data();
  Field found{{logits, barred, all.text_first, all.text_last}, {logits, barred, all.time_first, all.time_last}};
  found.of_text = summarize(found.text, 1.0f);
  found.of_times = summarize(found.times, 1.0f);
  // Where a time is likelier than the likeliest word, it is a time.
  if (times.wanted && found.of_times.log_sum > found.of_text.max) {
    found.text.last = found.text.first;
    found.of_text = {kNever, 0, kNever};
  }
  found.instead_of_end = all.needs_words && logits[vocabulary_.end_of_text] > found.of_text.max;
  found.log_sum = add_logs(found.of_text.log_sum, found.of_times.log_sum);
  return found;
}

Choice Grammar::choose(const float* logits, const std::vector<int>& tokens, const Times& times, float temperature,
                       Random& random) const {
  const Field all = field(logits, tokens, times);
  int token = all.of_text.max >= all.of_times.max ? all.of_text.token : all.of_times.token;
  if (temperature > 0) {
    const float scale = 1.0f / temperature;
    const float shift = add_logs(summarize(all.text, scale).log_sum, summarize(all.times, scale).log_sum);
    double mass = random.uniform();
    int drawn = find_mass(all.text, scale, shift, mass);
    if (drawn < 0) drawn = find_mass(all.times, scale, shift, mass);
    if (drawn >= 0) token = drawn;  // else the sums rounded to less than was drawn: the likeliest will do
  }
  return {token, logits[token] - all.log_sum, all.instead_of_end};
}

std::vector<Choice> Grammar::likeliest(const float* logits, const std::vector<int>& tokens, const Times& times,
                                       int count) const {
  const Field all = field(logits, tokens, times);
  std::vector<TokenLogit> top(count, {kNever, 0});
  take_top(all.text, count, top.data());
  take_top(all.times, count, top.data());
  std::vector<Choice> choices;
  for (const TokenLogit& each : top)
    if (each.logit != kNever) choices.push_back({each.token, each.logit - all.log_sum, all.instead_of_end});
  return choices;
}

float Grammar::probability(const float* logits, int token) const {
  if (token < 0) return 0.0f;
  return std::exp(logits[token] - summarize({logits, nullptr, 0, vocabulary_.size}, 1.0f).log_sum);
}

}  // namespace stentor
