#include "limits.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

#include "memory.h"
#include "threads.h"

namespace stentor {
namespace {

constexpr int kRepeats = 5;
constexpr int kTiles = 12;  // a pair of panels for 384 inputs: 24 KB
constexpr int kProducts = 20000;
constexpr std::size_t kReadBytes = std::size_t{256} << 20;  // beyond any cache
constexpr int kPieces = 64;

double best_seconds(ThreadPool& pool, int pieces, const std::function<void(int)>& work) {
  double best = 1e9;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    pool.each(pieces, [&](int piece, int) { work(piece); });
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

}  // namespace

double measure_operations_per_s(const MicroKernels& micro, int threads) {
  ThreadPool pool(threads, micro.enter);
  const std::ptrdiff_t inputs = kTiles * kTileInputs;
  const Buffer<bf16> a(32 * inputs), panels(4 * kTiles * kTileElements);
  const double seconds = best_seconds(pool, threads, [&](int) {
    alignas(kLineBytes) float c[32 * kPairOfPanels];
    for (int i = 0; i < kProducts; ++i)
      micro.block_product(a.data(), inputs, micro.block_rows, panels.data(), kTiles * kTileElements, kTiles, 1, c,
                          kPairOfPanels);
  });
  return 2.0 * micro.block_rows * inputs * kPairOfPanels * kProducts * threads / seconds;
}

double measure_read_bytes_per_s(int threads) {
  ThreadPool pool(threads, [] {});
  const Buffer<std::uint64_t> memory(kReadBytes / sizeof(std::uint64_t));
  std::atomic<std::uint64_t> total{0};  // keeps the compiler from leaving the reading out
  const double seconds = best_seconds(pool, kPieces, [&](int piece) {
    const std::uint64_t* from = memory.data() + memory.size() / kPieces * piece;
    std::uint64_t sums[8] = {};
    for (std::size_t i = 0; i < memory.size() / kPieces; i += 8)
      for (int lane = 0; lane < 8; ++lane)
        sums[lane] += from[i + lane];
    for (std::uint64_t sum : sums)
      total += sum;
  });
  return static_cast<double>(kReadBytes) / seconds;
}

}  // namespace stentor
