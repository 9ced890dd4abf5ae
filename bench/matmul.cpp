// Times the MXFP6 matmul beside the two limits it has on this machine, in the same run and interleaved:
// the read bandwidth (few columns) and the int8 multiply-add rate of the instruction set (many columns).
// Medians over rounds (--statistic best: the least, where other work disturbs). Usage: bench_matmul [--isa NAME] [--type e2m3|e3m2] [--activations int8|f32] [--rounds R]
//                                          [--threads T,T] [--statistic median|best] [--k K,K] [--n N,N] [--mib WEIGHTS]
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "mxfp6/dispatch.h"
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

using namespace specdec::mxfp6;

namespace {

struct Options {
  std::string isa, type = "e2m3", activations = "int8";
  int rounds = 9;
  bool best = false;
  std::vector<std::int64_t> threads = {1, 2}, k = {2048, 5632}, n = {1, 2, 4, 8, 12, 16, 64, 512};
  std::int64_t mib = 96;
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Seconds from a common start to the end of the slowest of work(0) .. work(threads - 1).
double timed(int threads, const std::function<void(int)>& work) {
  std::atomic<int> waiting{threads};
  std::vector<double> begin(static_cast<std::size_t>(threads)), end(begin);
  const auto run = [&](int t) {
    waiting.fetch_sub(1);
    while (waiting.load() > 0) {}
    begin[static_cast<std::size_t>(t)] = now();
    work(t);
    end[static_cast<std::size_t>(t)] = now();
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(run, t);
  run(0);
  for (auto& other : others) other.join();
  return *std::max_element(end.begin(), end.end()) - *std::min_element(begin.begin(), begin.end());
}

// Of seconds: the median, or for a machine that others use too the least.
double typical(std::vector<double> seconds, bool best) {
  std::sort(seconds.begin(), seconds.end());
  return best ? seconds.front() : seconds[seconds.size() / 2];
}

// --- the limits -------------------------------------------------------------------------------------------------

// Reads memory once, line by line, sums kept so that nothing is dropped. Leaves prefetching to the hardware: measured
// faster here than with prefetch instructions.
std::uint64_t read_all(const std::uint8_t* p, std::size_t bytes) {
  std::uint64_t sum[8] = {};
  for (std::size_t at = 0; at + 64 <= bytes; at += 64) {
    for (std::size_t i = 0; i < 8; ++i) {
      std::uint64_t word;
      std::memcpy(&word, p + at + 8 * i, sizeof word);
      sum[i] += word;
    }
  }
  return sum[0] ^ sum[1] ^ sum[2] ^ sum[3] ^ sum[4] ^ sum[5] ^ sum[6] ^ sum[7];
}

constexpr std::int64_t peak_loops = 1 << 20;

#if defined(__x86_64__)
// 12 independent vpdpbusd chains: more than latency times throughput. Returns multiply-adds done.
__attribute__((target("avx512f,avx512vnni"))) std::int64_t peak_avx512() {
  for (std::int64_t i = 0; i < peak_loops; ++i) {
    __asm__ volatile(
        "vpdpbusd %%zmm12, %%zmm13, %%zmm0\n\tvpdpbusd %%zmm12, %%zmm13, %%zmm1\n\tvpdpbusd %%zmm12, %%zmm13, %%zmm2\n\t"
        "vpdpbusd %%zmm12, %%zmm13, %%zmm3\n\tvpdpbusd %%zmm12, %%zmm13, %%zmm4\n\tvpdpbusd %%zmm12, %%zmm13, %%zmm5\n\t"
        "vpdpbusd %%zmm12, %%zmm13, %%zmm6\n\tvpdpbusd %%zmm12, %%zmm13, %%zmm7\n\tvpdpbusd %%zmm12, %%zmm13, %%zmm8\n\t"
        "vpdpbusd %%zmm12, %%zmm13, %%zmm9\n\tvpdpbusd %%zmm12, %%zmm13, %%zmm10\n\tvpdpbusd %%zmm12, %%zmm13, %%zmm11" ::
            : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11");
  }
  return peak_loops * 12 * 64;
}

// The AVX2 unit of 32 multiply-adds is maddubs, madd, add; six of them in flight.
__attribute__((target("avx2"))) std::int64_t peak_avx2() {
  for (std::int64_t i = 0; i < peak_loops; ++i) {
    __asm__ volatile(
        "vpmaddubsw %%ymm14, %%ymm15, %%ymm6\n\tvpmaddubsw %%ymm14, %%ymm15, %%ymm7\n\tvpmaddubsw %%ymm14, %%ymm15, %%ymm8\n\t"
        "vpmaddubsw %%ymm14, %%ymm15, %%ymm9\n\tvpmaddubsw %%ymm14, %%ymm15, %%ymm10\n\tvpmaddubsw %%ymm14, %%ymm15, %%ymm11\n\t"
        "vpmaddwd %%ymm14, %%ymm6, %%ymm6\n\tvpmaddwd %%ymm14, %%ymm7, %%ymm7\n\tvpmaddwd %%ymm14, %%ymm8, %%ymm8\n\t"
        "vpmaddwd %%ymm14, %%ymm9, %%ymm9\n\tvpmaddwd %%ymm14, %%ymm10, %%ymm10\n\tvpmaddwd %%ymm14, %%ymm11, %%ymm11\n\t"
        "vpaddd %%ymm6, %%ymm0, %%ymm0\n\tvpaddd %%ymm7, %%ymm1, %%ymm1\n\tvpaddd %%ymm8, %%ymm2, %%ymm2\n\t"
        "vpaddd %%ymm9, %%ymm3, %%ymm3\n\tvpaddd %%ymm10, %%ymm4, %%ymm4\n\tvpaddd %%ymm11, %%ymm5, %%ymm5" ::
            : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11");
  }
  return peak_loops * 6 * 32;
}
#elif defined(__aarch64__)
__attribute__((target("+dotprod"))) std::int64_t peak_neon() {
  int32x4_t sum[12];
  const int8x16_t a = vdupq_n_s8(3), b = vdupq_n_s8(5);
  for (auto& s : sum) s = vdupq_n_s32(0);
  for (std::int64_t i = 0; i < peak_loops; ++i) {
#pragma GCC unroll 12
    for (auto& s : sum) {
      s = vdotq_s32(s, a, b);
      __asm__ volatile("" : "+w"(s));
    }
  }
  return peak_loops * 12 * 16;
}
#endif

std::int64_t peak(const std::string& isa) {
#if defined(__x86_64__)
  if (isa == "avx512_vnni_vbmi") return peak_avx512();
  if (isa == "avx2") return peak_avx2();
#elif defined(__aarch64__)
  if (isa == "neon_dotprod") return peak_neon();
#endif
  return 0;
}

// --- the matmul -------------------------------------------------------------------------------------------------

std::vector<std::uint8_t> random_tiles(std::int64_t rows, std::int64_t k) {
  std::vector<std::uint8_t> tiles(static_cast<std::size_t>(rows / tile_rows * (k / block_size) * tile_bytes));
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const std::size_t place = i % tile_bytes;
    tiles[i] = static_cast<std::uint8_t>(place < tile_code_bytes ? state >> 56 : 115 + (state >> 62));
  }
  return tiles;
}

struct Case {
  const Kernels* kernels;
  Type type;
  bool f32;
  std::int64_t rows, k, n;
  const std::uint8_t* tiles;
  std::vector<float> x, out;
  std::vector<std::uint8_t> panel;
  std::vector<std::vector<std::uint8_t>> scratch;

  void run(int t, int threads) {
    const std::int64_t bands = rows / tile_rows, first = bands * t / threads, last = bands * (t + 1) / threads;
    if (f32) {
      kernels->matmul_f32(type, tiles, k, x.data(), k, n, first, last, out.data(), rows);
    } else {
      kernels->matmul(type, tiles, k, panel.data(), n, first, last, out.data(), rows, scratch[static_cast<std::size_t>(t)].data());
    }
  }
};

Case make_case(const Options& options, const Kernels& kernels, const std::vector<std::uint8_t>& tiles, std::int64_t rows, std::int64_t k,
               std::int64_t n, std::size_t threads) {
  const Type type = options.type == "e3m2" ? Type::e3m2 : Type::e2m3;
  Case c{&kernels, type, options.activations == "f32", rows, k, n, tiles.data(), {}, {}, {}, {}};
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  c.x.resize(static_cast<std::size_t>(n * k));
  for (auto& value : c.x) value = normal(random);
  c.out.resize(static_cast<std::size_t>(n * rows));
  c.panel.resize(panel_bytes(n, k));
  for (std::int64_t column = 0; column < n; ++column) kernels.quantize(type, c.x.data() + column * k, n, k, column, 0, k / block_size, c.panel.data());
  c.scratch.assign(threads, std::vector<std::uint8_t>(scratch_bytes(type, n, k)));
  return c;
}

void bench(const Options& options, const Kernels& kernels, std::int64_t k, int threads) {
  const std::int64_t rows = options.mib * (1 << 20) / tile_bytes / (k / block_size) * tile_rows;
  const std::vector<std::uint8_t> tiles = random_tiles(rows, k);
  std::vector<Case> cases;
  for (const std::int64_t n : options.n) {
    // Compute-bound cases need fewer rows: about the same time each.
    const std::int64_t used = n > 16 ? std::max<std::int64_t>(rows * 16 / n / tile_rows, 2 * threads) * tile_rows : rows;
    cases.push_back(make_case(options, kernels, tiles, used, k, n, static_cast<std::size_t>(threads)));
  }
  std::vector<double> reads, peaks;
  double peak_ops = 0;
  std::vector<std::vector<double>> seconds(cases.size());
  std::atomic<std::uint64_t> sink{0};
  for (int round = 0; round <= options.rounds; ++round) {
    const double read_seconds = timed(threads, [&](int t) {
      const std::size_t from = tiles.size() * static_cast<std::size_t>(t) / static_cast<std::size_t>(threads);
      const std::size_t to = tiles.size() * static_cast<std::size_t>(t + 1) / static_cast<std::size_t>(threads);
      sink += read_all(tiles.data() + from, to - from);
    });
    std::int64_t products = 0;
    const double peak_seconds = timed(threads, [&](int t) {
      const std::int64_t done = peak(kernels.name);
      if (t == 0) products = done * threads;
    });
    if (round > 0) reads.push_back(read_seconds);
    if (round > 0) peaks.push_back(peak_seconds);
    peak_ops = 2.0 * static_cast<double>(products);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const double s = timed(threads, [&](int t) { cases[i].run(t, threads); });
      if (round > 0) seconds[i].push_back(s);
    }
  }
  const double limit_bytes = static_cast<double>(tiles.size()) / typical(reads, options.best);
  const double limit_ops = peak_ops / typical(peaks, options.best);
  std::printf("%s %s %s, k = %lld, %d thread(s): read %.1f GB/s, int8 peak %.0f GOP/s\n", kernels.name, options.type.c_str(),
              options.activations.c_str(), static_cast<long long>(k), threads, limit_bytes / 1e9, limit_ops / 1e9);
  std::printf("   n    GB/s  of read    GOP/s  of peak\n");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const double weights = static_cast<double>(cases[i].rows * k), s = typical(seconds[i], options.best);
    const double bytes = weights * 25 / 32 / s, ops = 2 * weights * static_cast<double>(cases[i].n) / s;
    std::printf("%4lld  %6.1f  %6.1f%%  %7.0f  ", static_cast<long long>(cases[i].n), bytes / 1e9, 100 * bytes / limit_bytes, ops / 1e9);
    limit_ops > 0 ? std::printf("%6.1f%%\n", 100 * ops / limit_ops) : std::printf("      -\n");
  }
  std::fflush(stdout);
}

std::vector<std::int64_t> numbers(const std::string& text) {
  std::vector<std::int64_t> list;
  for (std::size_t at = 0; at < text.size(); at = text.find(',', at) == std::string::npos ? text.size() : text.find(',', at) + 1) {
    list.push_back(std::atoll(text.c_str() + at));
  }
  return list;
}

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (i + 1 == argc) return false;
    const std::string value = argv[i + 1];
    if (flag == "--isa") options.isa = value;
    else if (flag == "--type") options.type = value;
    else if (flag == "--activations") options.activations = value;
    else if (flag == "--statistic") options.best = value == "best";
    else if (flag == "--rounds") options.rounds = std::atoi(value.c_str());
    else if (flag == "--threads") options.threads = numbers(value);
    else if (flag == "--k") options.k = numbers(value);
    else if (flag == "--n") options.n = numbers(value);
    else if (flag == "--mib") options.mib = std::atoll(value.c_str());
    else return false;
  }
  return options.rounds > 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr, "bad arguments; see the top of bench/matmul.cpp\n");
    return 2;
  }
  const Selection selection = select_kernels(options.isa);
  if (selection.kernels == nullptr) {
    std::fprintf(stderr, "%s\n", selection.error.c_str());
    return 1;
  }
  for (const std::int64_t k : options.k) {
    for (const std::int64_t threads : options.threads) bench(options, *selection.kernels, k, static_cast<int>(threads));
  }
  return 0;
}
