#include "threads.h"

namespace stentor {
namespace {

// About 30 microseconds: longer than the serial part between two loops of a step, shorter than anybody minds.
constexpr int kSpins = 1000;

inline void pause() { __builtin_ia32_pause(); }

}  // namespace

ThreadPool::ThreadPool(int threads, void (*enter)()) : enter_(enter) {
  for (int thread = 1; thread < threads; ++thread)
    workers_.emplace_back([this, thread] { work(thread); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_)
    worker.join();
}

void ThreadPool::run(int pieces, Call call, void* context) {
  if (pieces == 0) return;
  if (pieces == 1 || workers_.empty()) {
    enter_();
    for (int piece = 0; piece < pieces; ++piece)
      call(context, piece, 0);
    return;
  }
  call_ = call;
  context_ = context;
  pieces_ = pieces;
  next_.store(0, std::memory_order_relaxed);
  busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  loop_.fetch_add(1);  // publishes the fields above; sequentially consistent with asleep_
  if (asleep_.load() > 0) {
    std::lock_guard lock(mutex_);
    wake_.notify_all();
  }
  take_pieces(0);
  // Workers must have left the loop before its body, which lies on the caller's stack, may go.
  for (int spins = 0; busy_.load(std::memory_order_acquire) > 0; ++spins) {
    if (spins < kSpins)
      pause();
    else
      std::this_thread::yield();
  }
}

void ThreadPool::take_pieces(int thread) {
  enter_();
  for (int piece; (piece = next_.fetch_add(1, std::memory_order_relaxed)) < pieces_;)
    call_(context_, piece, thread);
}

bool ThreadPool::wait_for_loop(std::uint64_t seen) {
  for (int spins = 0; spins < kSpins; ++spins) {
    if (loop_.load(std::memory_order_acquire) != seen) return true;
    if (stopping_.load(std::memory_order_relaxed)) return false;
    pause();
  }
  std::unique_lock lock(mutex_);
  asleep_.fetch_add(1);
  wake_.wait(lock, [&] { return loop_.load() != seen || stopping_; });
  asleep_.fetch_sub(1);
  return loop_.load() != seen;
}

void ThreadPool::work(int thread) {
  std::uint64_t seen = 0;
  while (wait_for_loop(seen)) {
    ++seen;  // every worker takes part in every loop, so loops are never skipped
    take_pieces(thread);
    busy_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace stentor
