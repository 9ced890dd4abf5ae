// Runs independent pieces of work on several threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/index.h"

namespace specdec {

// Runs work(piece, thread) once for each piece 0 .. num_pieces - 1 on up to num_threads threads (fewer if the system
// cannot start more). Thread 0 is the caller's; after each of its pieces it calls tick(). Pieces are started in order.
// After an exception no further pieces are started; if several pieces throw, the exception of the lowest one is
// rethrown here.
template <typename Work, typename Tick>
void for_each_piece(int num_threads, std::int64_t num_pieces, const Work& work, const Tick& tick) {
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::exception_ptr failure;
  std::int64_t failed_piece = num_pieces;
  const auto run = [&](int thread) {
    while (!stop) {
      const std::int64_t piece = next++;
      if (piece >= num_pieces) return;
      try {
        work(piece, thread);
        if (thread == 0) tick();
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex);
        if (piece < failed_piece) failure = std::current_exception(), failed_piece = piece;
        stop = true;
      }
    }
  };
  std::vector<std::thread> others;
  others.reserve(idx(num_threads));
  try {
    for (int thread = 1; thread < num_threads && thread < num_pieces; ++thread) others.emplace_back(run, thread);
  } catch (const std::exception&) {  // no more threads, or no memory for one
  }
  run(0);
  for (std::thread& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
}

// The same with work(piece).
template <typename Work>
void for_each_piece(int num_threads, std::int64_t num_pieces, const Work& work) {
  for_each_piece(num_threads, num_pieces, [&work](std::int64_t piece, int) { work(piece); }, [] {});
}

}  // namespace specdec
