// Continuous batching: a thread that encodes and decodes for whoever has a slot, step by step.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "decoder.h"
#include "encoder.h"
#include "grammar.h"
#include "model.h"
#include "sequence.h"
#include "threads.h"

namespace stentor {

struct EngineLimits {
  int max_batch = 16;  // sequences that are encoded or decoded at once
  int max_beams = 1;   // of a sequence
  int threads = 1;
  double encode_share = 0.9;     // of a lane's time, while both encoding and decoding wait; see Engine::run
  double patient_share = 0.125;  // of all time, for what is not urgent while something urgent is there
};

// The urgent, or the patient: who is encoded in which order, and how far the window of the first has come.
struct Lane {
  explicit Lane(int width) : encoding(width) {}

  std::deque<Sequence*> to_encode;
  EncoderState encoding;
  double encode_credit_s = 0;  // what encoding may take before the next decoder step
};

struct EngineStatistics {
  std::uint64_t steps = 0, rows = 0, encoded = 0;
  double step_s = 0, encode_s = 0;
};

class Engine {
 public:
  Engine(std::unique_ptr<Model> model, const MicroKernels& micro, const Vocabulary& vocabulary,
         std::vector<std::pair<int, int>> alignment_heads, const EngineLimits& limits);
  ~Engine();

  // Takes a request in; its answer comes as an event. More than max_batch wait in the order of their coming.
  void submit(Request request);

  // Lets requests end before the next step; silent on unknown ids. Each that was there answers `aborted`.
  void abort(const std::vector<std::uint64_t>& ids);

  // Waits until there are events, at most so long, and takes them. Also returns when the engine stops.
  std::vector<Event> events(double timeout_s);

  // Aborts everything and ends the thread. Idempotent.
  void close();

  // Why the thread ended by itself; empty while it is well.
  std::string failure() const;

  EngineStatistics statistics() const;
  const Model& model() const { return *model_; }
  const MicroKernels& micro() const { return micro_; }
  int max_beams() const { return limits_.max_beams; }
  int threads() const { return pool_.size(); }
  std::size_t shared_bytes() const {
    return model_->bytes() + encoder_.bytes() + urgent_.encoding.bytes() + patient_.encoding.bytes() +
           decoder_.bytes() - slot_cache_bytes();
  }
  std::size_t slot_bytes() const;  // keys, values and encoded audio

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  bool take_requests();
  void fill_slots();
  Lane& lane_of(const Sequence& sequence) { return sequence.request.urgent ? urgent_ : patient_; }
  bool anyone(bool urgent) const;
  void work(Lane& lane);
  void encode_piece(Lane& lane);
  bool decode_step(const Lane& lane);
  void add_rows(Sequence& sequence, int& room);
  void read_row(int index);
  void search(Sequence& sequence);
  void deliver();
  std::size_t slot_cache_bytes() const { return decoder_.slot_bytes() * limits_.max_batch; }

  struct LogitsRow {
    Sequence* sequence;
    int position;
    int beam;
  };

  std::unique_ptr<Model> model_;
  const MicroKernels& micro_;
  EngineLimits limits_;
  ThreadPool pool_;
  Encoder encoder_;
  Decoder decoder_;
  Grammar grammar_;

  // Of the thread alone.
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::vector<std::unique_ptr<Sequence>> slots_;  // null where free
  Lane urgent_, patient_;
  std::vector<DecoderRow> rows_;
  std::vector<LogitsRow> logits_rows_;
  std::vector<Event> answers_;

  mutable std::mutex mutex_;
  std::condition_variable work_, news_;
  std::vector<Request> inbox_;
  std::unordered_set<std::uint64_t> aborted_;
  std::vector<Event> events_;
  EngineStatistics statistics_;
  std::string failure_;
  bool closing_ = false;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace stentor
