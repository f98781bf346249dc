#include "engine.h"

#include <algorithm>
#include <cmath>
#include <exception>

namespace stentor {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Engine::Engine(std::unique_ptr<Model> model, const MicroKernels& micro, const Vocabulary& vocabulary,
               std::vector<std::pair<int, int>> alignment_heads, const EngineLimits& limits)
    : model_(std::move(model)),
      micro_(micro),
      limits_(limits),
      pool_(limits.threads, micro.enter),
      encoder_(*model_, micro, pool_),
      decoder_(*model_, micro, pool_, limits.max_batch, limits.max_beams, std::move(alignment_heads)),
      grammar_(vocabulary),
      slots_(limits.max_batch),
      urgent_(model_->shape.width),
      patient_(model_->shape.width) {
  thread_ = std::thread([this] { run(); });
}

Engine::~Engine() { close(); }

std::size_t Engine::slot_bytes() const {
  return decoder_.slot_bytes() + static_cast<std::size_t>(kPaddedFrames) * model_->shape.width * sizeof(bf16);
}

void Engine::submit(Request request) {
  std::lock_guard lock(mutex_);
  inbox_.push_back(std::move(request));
  work_.notify_one();
}

void Engine::abort(const std::vector<std::uint64_t>& ids) {
  std::lock_guard lock(mutex_);
  aborted_.insert(ids.begin(), ids.end());
  work_.notify_one();
}

std::vector<Event> Engine::events(double timeout_s) {
  std::unique_lock lock(mutex_);
  news_.wait_for(lock, std::chrono::duration<double>(timeout_s), [&] { return !events_.empty() || ended_; });
  return std::exchange(events_, {});
}

void Engine::close() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
    work_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

std::string Engine::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

EngineStatistics Engine::statistics() const {
  std::lock_guard lock(mutex_);
  return statistics_;
}

// What is urgent goes first: a patient window is left between two layers, patient tokens wait. Only a share of
// the time remains for the patient, so that a flood of the urgent does not stop them.
void Engine::run() {
  double owed_s = 0;  // to the patient
  std::string failure;
  try {
    while (take_requests()) {
      fill_slots();
      const bool both = anyone(true) && anyone(false);
      const bool urgent = both ? owed_s <= 0 : anyone(true);
      const auto start = Clock::now();
      work(urgent ? urgent_ : patient_);
      const double share = limits_.patient_share, gain = urgent ? share / std::max(1e-3, 1 - share) : -1;
      owed_s = both ? owed_s + seconds_since(start) * gain : 0;
    }
  } catch (const std::exception& error) {
    failure = error.what();
  }
  std::lock_guard lock(mutex_);
  failure_ = failure;
  ended_ = true;
  news_.notify_all();
}

bool Engine::anyone(bool urgent) const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [&](const auto& slot) { return slot != nullptr && slot->request.urgent == urgent; });
}

// A decoder step, then perhaps a piece of encoding, so that neither starves: over time encoding gets
// `encode_share`. A full batch decodes more tokens in the same time, so encoding has the larger share.
void Engine::work(Lane& lane) {
  const auto start = Clock::now();
  const bool decoded = decode_step(lane);
  const double step_s = seconds_since(start);
  deliver();
  const double ratio = limits_.encode_share / std::max(1e-3, 1 - limits_.encode_share);
  double& credit_s = lane.encode_credit_s;
  // Nothing to decode: encode a piece, then look whether somebody has come or gone.
  credit_s = decoded && !lane.to_encode.empty() ? credit_s + step_s * ratio : 0;
  double encode_s = 0;
  if (!lane.to_encode.empty() && (!decoded || credit_s > 0)) {
    const auto encoding = Clock::now();
    encode_piece(lane);
    encode_s = seconds_since(encoding);
    credit_s -= encode_s;
  }
  std::lock_guard lock(mutex_);
  statistics_.encode_s += encode_s;
  if (decoded) {
    statistics_.step_s += step_s;
    statistics_.steps += 1;
    statistics_.rows += rows_.size();
  }
}

// Moves the inbox to the waiting and takes out the aborted; sleeps while there is nothing to do. False at close.
bool Engine::take_requests() {
  const auto idle = [&] {
    return waiting_.empty() && std::none_of(slots_.begin(), slots_.end(), [](auto& slot) { return slot != nullptr; });
  };
  std::unordered_set<std::uint64_t> aborted;
  {
    std::unique_lock lock(mutex_);
    work_.wait(lock, [&] { return closing_ || !inbox_.empty() || !idle(); });
    if (closing_) return false;
    for (Request& request : inbox_)
      waiting_.push_back(std::make_unique<Sequence>(std::move(request)));
    inbox_.clear();
    aborted.swap(aborted_);
  }
  if (aborted.empty()) return true;
  const auto take_out = [&](std::unique_ptr<Sequence>& sequence) {
    if (sequence == nullptr || !aborted.count(sequence->request.id)) return false;
    Event event;
    event.id = sequence->request.id;
    event.what = Event::What::aborted;
    answers_.push_back(std::move(event));
    std::deque<Sequence*>& to_encode = lane_of(*sequence).to_encode;
    to_encode.erase(std::remove(to_encode.begin(), to_encode.end(), sequence.get()), to_encode.end());
    sequence.reset();
    return true;
  };
  for (auto& slot : slots_)
    take_out(slot);
  waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(), take_out), waiting_.end());
  deliver();
  return true;
}

void Engine::fill_slots() {
  for (int slot = 0; slot < limits_.max_batch && !waiting_.empty(); ++slot) {
    if (slots_[slot] != nullptr) continue;
    slots_[slot] = std::move(waiting_.front());
    waiting_.pop_front();
    slots_[slot]->slot = slot;
    if (!slots_[slot]->encoded()) lane_of(*slots_[slot]).to_encode.push_back(slots_[slot].get());
  }
}

void Engine::encode_piece(Lane& lane) {
  Sequence& sequence = *lane.to_encode.front();
  if (sequence.encoding == nullptr)
    sequence.encoding = std::make_shared<Buffer<bf16>>(static_cast<std::size_t>(kPaddedFrames) * model_->shape.width);
  encoder_.compute(sequence.pieces_done++, sequence.request.mel.data(), lane.encoding, *sequence.encoding);
  if (sequence.pieces_done < encoder_.pieces()) return;
  sequence.audio = std::move(sequence.encoding);
  sequence.request.mel = {};
  lane.to_encode.pop_front();
  std::lock_guard lock(mutex_);
  ++statistics_.encoded;
}

// Moves the encoded sequences of a lane on: by their prompt, as far as there is room, or by a token. The urgent
// come along with the patient: in one step they cost the others little. False if there is none.
bool Engine::decode_step(const Lane& lane) {
  const auto takes_part = [&](const std::unique_ptr<Sequence>& slot) {
    return slot != nullptr && slot->encoded() && (&lane == &patient_ || slot->request.urgent);
  };
  rows_.clear();
  logits_rows_.clear();
  int room = decoder_.max_rows();
  for (auto& slot : slots_)
    if (takes_part(slot)) room -= slot->rows_least();
  for (auto& slot : slots_)
    if (takes_part(slot)) add_rows(*slot, room);
  if (rows_.empty()) return false;
  decoder_.step(rows_);
  pool_.each(static_cast<int>(logits_rows_.size()), [&](int index, int) { read_row(index); });
  for (auto& slot : slots_) {
    if (slot == nullptr) continue;
    if (!slot->following.empty()) search(*slot);
    if (!slot->done) continue;
    slot->settle();
    slot->answer.audio = slot->audio;
    answers_.push_back(std::move(slot->answer));
    slot.reset();
  }
  return true;
}

// The prompt's next rows, as many as there is room for, or a row of each beam.
void Engine::add_rows(Sequence& sequence, int& room) {
  const Request& request = sequence.request;
  const int prompt = static_cast<int>(request.prompt.size());
  if (request.kind == Kind::align && sequence.answer.alignment.empty()) {
    sequence.answer.alignment.resize(static_cast<std::size_t>(decoder_.alignment_heads()) * prompt * kFrames);
    sequence.answer.probabilities.resize(prompt - 1);
  }
  const auto add = [&](int beam, int token) {
    const int position = sequence.position();
    DecoderRow row;
    row.slot = sequence.slot;
    row.track = beam;
    row.tracks = sequence.beams.live()[beam].tracks.data();
    row.token = token;
    row.position = position;
    row.audio = sequence.audio->data();
    row.wants_logits = position >= prompt - 1 || position == request.start || request.kind == Kind::align;
    if (request.kind == Kind::align)
      row.alignment =
          sequence.answer.alignment.data() + static_cast<std::size_t>(position) * decoder_.alignment_heads() * kFrames;
    if (row.wants_logits) logits_rows_.push_back({&sequence, position, beam});
    rows_.push_back(row);
  };
  if (sequence.prompt_left() > 0) {
    const int count = std::min(sequence.prompt_left(), room + 1);
    room -= count - 1;
    for (int i = 0; i < count; ++i, sequence.advance())
      add(0, request.prompt[sequence.position()]);
  } else {
    const std::vector<Beam>& beams = sequence.beams.live();
    for (std::size_t beam = 0; beam < beams.size(); ++beam)
      add(static_cast<int>(beam), beams[beam].tokens.back());
    sequence.advance();
  }
  if (sequence.searches() && sequence.prompt_left() <= 0) sequence.following.resize(sequence.beams.live().size());
}

// What a row's logits say. Rows of one sequence write to different places, so that threads share the rows.
void Engine::read_row(int index) {
  Sequence& sequence = *logits_rows_[index].sequence;
  const Request& request = sequence.request;
  const int position = logits_rows_[index].position, prompt = static_cast<int>(request.prompt.size());
  float* logits = decoder_.logits(index);
  Event& answer = sequence.answer;
  if (request.kind == Kind::align) {
    // Among text tokens and the end only; source: openai/whisper timing.py, find_alignment.
    if (position + 1 < prompt) {
      const LogitRange text{logits, nullptr, 0, grammar_.vocabulary().end_of_text + 1};
      answer.probabilities[position] = std::exp(logits[request.prompt[position + 1]] - summarize(text, 1.0f).log_sum);
    }
    if (position + 1 == prompt) sequence.done = true;
    return;
  }
  if (position == request.start)
    answer.no_speech_probability = grammar_.probability(logits, grammar_.vocabulary().no_speech);
  if (position < prompt - 1) return;
  if (request.kind == Kind::probe) {
    float most = -INFINITY, sum = 0;
    for (int token : request.probed)
      most = std::max(most, logits[token]);
    for (int token : request.probed)
      sum += std::exp(logits[token] - most);
    for (int token : request.probed)
      answer.probabilities.push_back(std::exp(logits[token] - most) / sum);
    sequence.done = true;
    return;
  }
  const int beam = logits_rows_[index].beam;
  if (sequence.searches()) {
    sequence.following[beam] =
        grammar_.likeliest(logits, sequence.beams.live()[beam].tokens, request.times, sequence.beams.width() + 1);
    return;
  }
  Beam& only = sequence.beams.only();
  const Choice choice = grammar_.choose(logits, only.tokens, request.times, request.temperature, sequence.random);
  only.add(choice, grammar_.vocabulary().end_of_text);
  sequence.done = choice.token == grammar_.vocabulary().end_of_text || sequence.is_full();
}

// Chooses among what all beams of a sequence could become.
void Engine::search(Sequence& sequence) {
  const int position = sequence.position();
  const bool goes_on = sequence.beams.advance(sequence.following, grammar_.vocabulary().end_of_text, position);
  sequence.following.clear();
  sequence.done = !goes_on || sequence.is_full();
}

void Engine::deliver() {
  if (answers_.empty()) return;
  std::lock_guard lock(mutex_);
  for (Event& answer : answers_)
    events_.push_back(std::move(answer));
  answers_.clear();
  news_.notify_all();
}

}  // namespace stentor
