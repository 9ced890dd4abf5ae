// Shared by the kernel benchmarks: the clock, the machine's read bandwidth, lists on the command line.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace bench {

// Seconds.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The upper median of an even number; 0 if empty.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Reads memory once, line by line, and uses the sum, so that the compiler keeps the reads (an asm statement naming the
// sums costs 10 %). Without prefetch instructions, which measured slower than the hardware prefetcher.
inline void read_all(const void* memory, std::size_t bytes) {
  const char* const p = static_cast<const char*>(memory);
  std::uint64_t sum[8] = {};
  for (std::size_t at = 0; at + 64 <= bytes; at += 64) {
    for (std::size_t i = 0; i < 8; ++i) {
      std::uint64_t word;
      std::memcpy(&word, p + at + 8 * i, sizeof word);
      sum[i] += word;
    }
  }
  const std::uint64_t all = sum[0] ^ sum[1] ^ sum[2] ^ sum[3] ^ sum[4] ^ sum[5] ^ sum[6] ^ sum[7];
  __asm__ volatile("" ::"r"(all));
}

// "a,b" as a list.
inline std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> list;
  for (std::size_t at = 0, end = 0; end != std::string::npos; at = end + 1) {
    end = text.find(',', at);
    list.push_back(text.substr(at, end - at));
  }
  return list;
}

// "1,2" as a list of numbers of at least 1.
template <typename Integer>
std::vector<Integer> numbers(const std::string& text) {
  std::vector<Integer> list;
  for (const std::string& word : words(text))
    list.push_back(static_cast<Integer>(std::max(1LL, std::atoll(word.c_str()))));
  return list;
}

}  // namespace bench
