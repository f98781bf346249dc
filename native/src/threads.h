// A small pool of threads that work on one thing at a time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace stentor {

// Runs loops over independent pieces on a fixed number of threads, the caller among them.
//
// A decoder step has some ten such loops per layer, each of some ten microseconds, so workers spin for a
// moment before they go to sleep. One thread at a time may call `each`.
class ThreadPool {
 public:
  // `enter` is called by each thread before its first piece of every loop: where a backend sets up tiles.
  ThreadPool(int threads, void (*enter)());
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(piece, thread) for every piece in [0, pieces), in any order; thread is in [0, size()).
  // Returns when all calls have returned. The body must not throw.
  template <class Body>
  void each(int pieces, Body&& body) {
    run(
        pieces, [](void* context, int piece, int thread) { (*static_cast<Body*>(context))(piece, thread); },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  using Call = void (*)(void* context, int piece, int thread);

  void run(int pieces, Call call, void* context);
  void work(int thread);
  void take_pieces(int thread);
  bool wait_for_loop(std::uint64_t seen);

  void (*enter_)();
  std::vector<std::thread> workers_;
  Call call_ = nullptr;
  void* context_ = nullptr;
  int pieces_ = 0;
  std::atomic<int> next_{0};
  std::atomic<int> busy_{0};
  std::atomic<std::uint64_t> loop_{0};  // counts loops; a change is what workers wait for
  std::atomic<int> asleep_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
};

}  // namespace stentor
