// Independent pieces of work over threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

namespace specdec::mxfp6 {

// Runs work(0) .. work(count - 1), each once, on up to num_threads threads; on fewer where the system has no more. The work must
// not throw.
template <typename Work>
void in_parallel(int num_threads, std::int64_t count, const Work& work) {
  std::atomic<std::int64_t> next{0};
  const auto run = [&] {
    for (std::int64_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> others;
  others.reserve(static_cast<std::size_t>(num_threads));
  try {
    for (int t = 1; t < num_threads && t < count; ++t) others.emplace_back(run);
  } catch (const std::system_error&) {
  }
  run();
  for (std::thread& other : others) other.join();
}

}  // namespace specdec::mxfp6
