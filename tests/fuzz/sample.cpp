// Runs a fuzzer's program on inputs that are chosen by their number alone, without libFuzzer and its guidance by
// coverage: test_fuzz_NAME COUNT.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* input, std::size_t size, std::size_t max_size,
                                               unsigned seed);

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t) {
  static std::minstd_rand random(1);
  if (size > 0) data[random() % size] ^= static_cast<std::uint8_t>(1u << random() % 8);
  return size;
}

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 1;
  for (int number = 0; number < count; ++number) {
    std::uint8_t input[64];
    std::size_t size = 0;
    for (int change = 0; change <= number % 4; ++change) {
      size = LLVMFuzzerCustomMutator(input, size, sizeof input, static_cast<unsigned>(7 * number + change));
    }
    LLVMFuzzerTestOneInput(input, size);
  }
  std::printf("%d inputs\n", count);
}
