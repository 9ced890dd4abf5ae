// Times the MXFP6 matmul beside the two limits it has on this machine, in the same run and interleaved:
// the read bandwidth (few columns) and the int8 multiply-add rate of the instruction set (many columns).
//
// Every thread walks through its own share of weights that do not fit the caches, and times pieces of a fraction of a
// millisecond; a case's rate is the median piece's, summed over threads. So other work on the machine, which takes a core
// away for milliseconds at a time, spoils few pieces; memory traffic of others still counts, for the limits as well.
//
// Usage: bench_matmul [--isa NAME] [--type e2m3|e3m2] [--activations int8|f32] [--rounds R] [--threads T,T] [--k K,K]
//                     [--n N,N] [--mib WEIGHTS] [--pages small|huge]
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "machine.h"
#include "mxfp6/dispatch.h"
#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

using namespace specdec::mxfp6;
using bench::median, bench::now, bench::read_all;

namespace {

struct Options {
  std::string isa, type = "e2m3", activations = "int8", pages = "small";
  int rounds = 25;
  std::vector<std::int64_t> threads = {1, 2}, k = {2048, 5632}, n = {1, 2, 4, 8, 12, 16, 64, 512};
  std::int64_t mib = 128;
};

constexpr double slice_seconds = 4e-3;  // of one case in one round

// --- the limits -------------------------------------------------------------------------------------------------

constexpr std::int64_t peak_loops = 1 << 13;

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

struct Free {
  void operator()(std::uint8_t* memory) const { std::free(memory); }
};
using Tiles = std::unique_ptr<std::uint8_t[], Free>;

Tiles random_tiles(std::int64_t rows, std::int64_t k, bool huge_pages) {
  constexpr std::size_t page = 2u << 20;
  const auto bytes = static_cast<std::size_t>(rows / tile_rows * (k / block_size) * tile_bytes);
  const std::size_t rounded = (bytes + page - 1) / page * page;
  Tiles tiles(static_cast<std::uint8_t*>(std::aligned_alloc(page, rounded)));
#if defined(__linux__)
  madvise(tiles.get(), rounded, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#endif
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < bytes; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const std::size_t place = i % tile_bytes;
    tiles[i] = static_cast<std::uint8_t>(place < tile_code_bytes ? state >> 56 : 115 + (state >> 62));
  }
  return tiles;
}

struct Case {
  enum class Kind { read, peak, matmul } kind;
  std::int64_t n;
};

// Shared by all threads: the weights, and per case the activations.
struct Setup {
  const Kernels* kernels;
  Type type;
  bool f32;
  std::int64_t k, rows;
  Tiles tiles;
  std::vector<Case> cases;
  std::vector<std::vector<float>> x;
  std::vector<std::vector<std::uint8_t>> panels;

  std::int64_t band_bytes() const { return k / block_size * tile_bytes; }
};

Setup make_setup(const Options& options, const Kernels& kernels, std::int64_t k) {
  const std::int64_t rows = options.mib * (1 << 20) / tile_bytes / (k / block_size) * tile_rows;
  Setup s{&kernels, options.type == "e3m2" ? Type::e3m2 : Type::e2m3, options.activations == "f32", k, rows, random_tiles(rows, k, options.pages == "huge"), {}, {}, {}};
  s.cases = {{Case::Kind::read, 0}, {Case::Kind::peak, 0}};
  for (const std::int64_t n : options.n) s.cases.push_back({Case::Kind::matmul, n});
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const Case& c : s.cases) {
    s.x.emplace_back(static_cast<std::size_t>(c.n * k));
    for (auto& value : s.x.back()) value = normal(random);
    s.panels.emplace_back(panel_bytes(c.n, k));
    for (std::int64_t column = 0; column < c.n; ++column) {
      kernels.quantize(s.type, s.x.back().data() + column * k, c.n, k, column, 0, k / block_size, s.panels.back().data());
    }
  }
  return s;
}

// One thread's walk through bands [first, last), going on from case to case so that weights are always cold.
class Walker {
 public:
  Walker(const Setup& setup, std::int64_t first, std::int64_t last)
      : setup_(setup), first_(first), last_(last), band_(first), rates_(setup.cases.size()) {
    std::int64_t widest = 1;
    for (const Case& c : setup.cases) widest = std::max(widest, c.n);
    scratch_.resize(scratch_bytes(setup.type, widest, setup.k));
    out_.resize(static_cast<std::size_t>(widest * piece_bands * tile_rows));
  }

  void run_slice(std::size_t index) {
    const double end = now() + slice_seconds;
    do {
      const double begin = now();
      const double work = run_piece(index);
      rates_[index].push_back(work / (now() - begin));
    } while (now() < end);
  }

  // Bytes of weights per second; for the peak, operations per second.
  double rate(std::size_t index) const { return median(rates_[index]); }

 private:
  static constexpr std::int64_t piece_bands = 4;

  double run_piece(std::size_t index) {
    const Case& c = setup_.cases[index];
    if (c.kind == Case::Kind::peak) return 2.0 * static_cast<double>(peak(setup_.kernels->name));
    if (band_ + piece_bands > last_) band_ = first_;
    const std::uint8_t* tiles = setup_.tiles.get() + band_ * setup_.band_bytes();
    band_ += piece_bands;
    if (c.kind == Case::Kind::read) {
      read_all(tiles, static_cast<std::size_t>(piece_bands * setup_.band_bytes()));
    } else if (setup_.f32) {
      setup_.kernels->matmul_f32(setup_.type, tiles, setup_.k, setup_.x[index].data(), setup_.k, c.n, 0, piece_bands, out_.data(), piece_bands * tile_rows);
    } else {
      setup_.kernels->matmul(setup_.type, tiles, setup_.k, setup_.panels[index].data(), c.n, 0, piece_bands, out_.data(), piece_bands * tile_rows, scratch_.data());
    }
    return static_cast<double>(piece_bands * setup_.band_bytes());
  }

  const Setup& setup_;
  std::int64_t first_, last_, band_;
  std::vector<std::vector<double>> rates_;
  std::vector<std::uint8_t> scratch_;
  std::vector<float> out_;
};

// All threads run the same case at the same time.
void run_rounds(const Setup& setup, std::vector<Walker>& walkers, int rounds) {
  const int threads = static_cast<int>(walkers.size());
  std::atomic<int> arrived{0};
  const auto run = [&](Walker& walker) {
    int step = 0;
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < setup.cases.size(); ++i) {
        arrived.fetch_add(1);
        for (++step; arrived.load() < step * threads;) std::this_thread::yield();
        walker.run_slice(i);
      }
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(run, std::ref(walkers[static_cast<std::size_t>(t)]));
  run(walkers[0]);
  for (auto& other : others) other.join();
}

void run(const Options& options, const Setup& setup, std::int64_t threads) {
  const std::int64_t bands = setup.rows / tile_rows;
  std::vector<Walker> walkers;
  for (std::int64_t t = 0; t < threads; ++t) walkers.emplace_back(setup, bands * t / threads, bands * (t + 1) / threads);
  run_rounds(setup, walkers, options.rounds);

  const auto rate = [&](std::size_t index) {
    double sum = 0;
    for (const Walker& walker : walkers) sum += walker.rate(index);
    return sum;
  };
  const double limit_bytes = rate(0), limit_ops = rate(1);
  std::printf("%s %s %s, k = %lld, %lld thread(s): read %.1f GB/s, int8 peak %.0f GOP/s\n", setup.kernels->name, options.type.c_str(),
              options.activations.c_str(), static_cast<long long>(setup.k), static_cast<long long>(threads), limit_bytes / 1e9, limit_ops / 1e9);
  std::printf("   n    GB/s  of read    GOP/s  of peak\n");
  for (std::size_t i = 2; i < setup.cases.size(); ++i) {
    const double bytes = rate(i), ops = 2.0 * bytes * 32 / 25 * static_cast<double>(setup.cases[i].n);
    std::printf("%4lld  %6.1f  %6.1f%%  %7.0f  ", static_cast<long long>(setup.cases[i].n), bytes / 1e9, 100 * bytes / limit_bytes, ops / 1e9);
    limit_ops > 0 ? std::printf("%6.1f%%\n", 100 * ops / limit_ops) : std::printf("      -\n");
  }
  std::fflush(stdout);
}

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (i + 1 == argc) return false;
    const std::string value = argv[i + 1];
    if (flag == "--isa") options.isa = value;
    else if (flag == "--type") options.type = value;
    else if (flag == "--activations") options.activations = value;
    else if (flag == "--rounds") options.rounds = std::atoi(value.c_str());
    else if (flag == "--threads") options.threads = bench::numbers<std::int64_t>(value);
    else if (flag == "--k") options.k = bench::numbers<std::int64_t>(value);
    else if (flag == "--n") options.n = bench::numbers<std::int64_t>(value);
    else if (flag == "--pages") options.pages = value;
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
    const Setup setup = make_setup(options, *selection.kernels, k);
    for (const std::int64_t threads : options.threads) run(options, setup, threads);
  }
  return 0;
}
