// Times the matmul of MXFP6, F16, BF16, F32 or stock quantized weights (Q4_K, ...; in tiles), compared with two limits
// of this machine measured in the same run and interleaved: read bandwidth (few columns) and the multiply-add rate of
// the instruction set (many columns), int8 or F32.
//
// Every thread works on its own share of weights, which do not fit the CPU caches, and times pieces of a fraction of a
// millisecond. A case's rate is that of the median piece, summed over threads. Other processes take a core away for
// milliseconds at a time, so they disturb few pieces; their memory traffic slows down the measured limits as well.
//
// Usage: bench_matmul [--isa NAME] [--type e2m3|f16|bf16|f32|Q4_K|...] [--rounds R] [--threads T,T] [--k K,K]
//                     [--n N,N] [--mib WEIGHTS] [--pages small|huge]
// All but MXFP6 also take --isa ggml: llama.cpp's dot product per row and column, in its order (its repacked weights
// are faster).
#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/isa.h"
#include "common/machine.h"
#include "common/peak.h"
#include "ggml-cpu.h"
#include "graph/grids.h"
#include "weights/blocks/grids.h"
#include "weights/blocks/kernels.h"
#include "weights/floats/kernels.h"
#include "weights/mxfp6/kernels.h"
#if defined(__linux__)
#include <sys/mman.h>
#endif

using namespace specdec::mxfp6;
using bench::median, bench::now, bench::read_all;
namespace floats = specdec::floats;
namespace blocks = specdec::blocks;

namespace {

struct Options {
  std::string isa, type = "e2m3", pages = "small";
  int rounds = 25;
  std::vector<std::int64_t> threads = {1, 2}, k = {2048, 5632}, n = {1, 2, 4, 8, 12, 16, 64, 512};
  std::int64_t mib = 128;
};

constexpr double slice_seconds = 4e-3;  // of one case in one round

// --- the matmul -------------------------------------------------------------------------------------------------

struct Free {
  void operator()(std::uint8_t* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<std::uint8_t[], Free>;

Memory allocate(std::size_t bytes, bool huge_pages) {
  constexpr std::size_t page = 2u << 20;
  const std::size_t rounded = (bytes + page - 1) / page * page;
  Memory memory(static_cast<std::uint8_t*>(std::aligned_alloc(page, rounded)));
#if defined(__linux__)
  madvise(memory.get(), rounded, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#endif
  return memory;
}

struct Case {
  enum class Kind { read, peak, matmul } kind;
  std::int64_t n;
};

using Panel = std::vector<std::uint8_t>;

// A type of weights and the kernels that multiply it; a piece is a range of rows.
struct Product {
  std::string isa;
  std::int64_t piece_rows, piece_bytes;
  bool int8;
  std::uint8_t (*weight_byte)(std::size_t at, std::uint64_t random);
  std::function<Panel(const std::vector<float>& x, std::int64_t n)> pack;
  std::function<void(const std::uint8_t* piece, const Panel& panel, std::int64_t n, float* out, std::uint8_t* scratch)>
      multiply;
  std::function<std::size_t(std::int64_t n)> scratch_bytes;
  Panel weights;  // of a piece; empty: weight_byte
};

Panel bytes_of(const std::vector<float>& x) {
  Panel panel(x.size() * sizeof(float));
  std::memcpy(panel.data(), x.data(), panel.size());
  return panel;
}
const float* floats(const Panel& panel) { return reinterpret_cast<const float*>(panel.data()); }

Product mxfp6_product(const Kernels& kernels, std::int64_t k) {
  constexpr std::int64_t bands = 4;
  Product p{kernels.name, bands * tile_rows, bands * (k / block_size) * tile_bytes,
            true,         nullptr,           nullptr,
            nullptr,      nullptr,           {}};
  p.weight_byte = [](std::size_t at, std::uint64_t random) {
    return static_cast<std::uint8_t>(at % tile_bytes < tile_code_bytes ? random >> 56 : 115 + (random >> 62));
  };
  p.pack = [=, &kernels](const std::vector<float>& x, std::int64_t n) {
    Panel panel(panel_bytes(n, k));
    for (std::int64_t c = 0; c < n; ++c) kernels.quantize(x.data() + c * k, n, k, c, 0, k / block_size, panel.data());
    return panel;
  };
  p.multiply = [=, &kernels](const std::uint8_t* piece, const Panel& panel, std::int64_t n, float* out,
                             std::uint8_t* scratch) {
    kernels.matmul(piece, k, panel.data(), n, 0, bands, out, bands * tile_rows, scratch);
  };
  p.scratch_bytes = [=](std::int64_t n) { return scratch_bytes(n, k); };
  return p;
}

std::int64_t weight_bytes(floats::Type type) { return type == floats::Type::f32 ? 4 : 2; }

// The last byte of a number: exponents around that of 1.
template <int bytes>
std::uint8_t float_byte(std::size_t at, std::uint64_t random) {
  return static_cast<std::uint8_t>(at % bytes == bytes - 1 ? 0x38 + (random >> 62) + (random >> 54 & 0x80)
                                                           : random >> 56);
}

// llama.cpp's dot products, 16 rows and 16 columns at a time.
void multiply_by_ggml(ggml_vec_dot_t dot, std::int64_t k, const std::uint8_t* weights, std::size_t row_bytes,
                      std::int64_t rows, const std::uint8_t* columns, std::size_t column_bytes, std::int64_t n,
                      float* out) {
  constexpr std::int64_t block = 16;
  for (std::int64_t c0 = 0; c0 < n; c0 += block) {
    for (std::int64_t r0 = 0; r0 < rows; r0 += block) {
      for (std::int64_t c = c0; c < std::min(n, c0 + block); ++c) {
        for (std::int64_t r = r0; r < r0 + block; ++r) {
          const std::uint8_t *row = weights + static_cast<std::size_t>(r) * row_bytes,
                             *column = columns + static_cast<std::size_t>(c) * column_bytes;
          dot(static_cast<int>(k), out + c * rows + r, 0, row, 0, column, 0, 1);
        }
      }
    }
  }
}

Product float_product(const std::string& isa, const std::string& name, std::int64_t k) {
  const floats::Type type = name == "f16" ? floats::Type::f16 : name == "bf16" ? floats::Type::bf16 : floats::Type::f32;
  constexpr std::int64_t rows = 2 * floats::tile_rows;
  const std::int64_t row_bytes = k * weight_bytes(type);
  Product p{isa,     rows,    rows * row_bytes, false, type == floats::Type::f32 ? float_byte<4> : float_byte<2>,
            nullptr, nullptr, nullptr,          {}};
  p.scratch_bytes = [](std::int64_t) { return std::size_t{0}; };
  if (isa != "ggml") {
    const floats::Kernels& kernels = specdec::pick(floats::all_kernels(), *specdec::select_isa(isa).isa);
    p.pack = [=, &kernels](const std::vector<float>& x, std::int64_t n) {
      std::vector<float> panel(floats::panel_floats(n, k));
      for (std::int64_t c = 0; c < n; ++c)
        floats::pack(kernels, x.data() + c * k, n, k, c, 0, floats::num_blocks(k), panel.data());
      return bytes_of(panel);
    };
    p.multiply = [=, &kernels](const std::uint8_t* piece, const Panel& panel, std::int64_t n, float* out,
                               std::uint8_t*) {
      kernels.matmul({type, piece, row_bytes, k}, floats(panel), n, 0, rows, out, rows);
    };
    return p;
  }
  p.pack = [=](const std::vector<float>& x, std::int64_t n) {  // activations of the weights' type
    if (type == floats::Type::f32) return bytes_of(x);
    Panel panel(static_cast<std::size_t>(n * row_bytes));
    if (type == floats::Type::f16) ggml_cpu_fp32_to_fp16(x.data(), reinterpret_cast<ggml_fp16_t*>(panel.data()), n * k);
    else ggml_cpu_fp32_to_bf16(x.data(), reinterpret_cast<ggml_bf16_t*>(panel.data()), n * k);
    return panel;
  };
  const ggml_type ggml = type == floats::Type::f16    ? GGML_TYPE_F16
                         : type == floats::Type::bf16 ? GGML_TYPE_BF16
                                                      : GGML_TYPE_F32;
  const auto dot = ggml_get_type_traits_cpu(ggml)->vec_dot;
  p.multiply = [=](const std::uint8_t* piece, const Panel& panel, std::int64_t n, float* out, std::uint8_t*) {
    const auto bytes = static_cast<std::size_t>(row_bytes);
    multiply_by_ggml(dot, k, piece, bytes, rows, panel.data(), bytes, n, out);
  };
  return p;
}

std::optional<blocks::Type> block_type(const std::string& name) {
  for (const blocks::Type type : blocks::block_types.types) {
    if (name == blocks::format_of(type).name) return specdec::with_grids(type);
  }
  return std::nullopt;
}

std::string type_name(ggml_type type) {
  std::string name = ggml_type_name(type) == nullptr ? "" : ggml_type_name(type);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

ggml_type ggml_type_of(blocks::Type type) {
  for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
    if (type_name(static_cast<ggml_type>(i)) == blocks::format_of(type).name) return static_cast<ggml_type>(i);
  }
  std::abort();
}

// Random weights, as llama.cpp rounds them, or random blocks of types with a grid, for which that takes minutes.
Panel random_blocks(ggml_type ggml, std::int64_t rows, std::int64_t k) {
  const std::size_t row_bytes = ggml_row_size(ggml, k), block_bytes = ggml_type_size(ggml);
  Panel file(static_cast<std::size_t>(rows) * row_bytes);
  std::mt19937 random(1);
  if (blocks::has_grid(*block_type(type_name(ggml)))) {
    for (std::uint8_t& byte : file) byte = static_cast<std::uint8_t>(random());
    for (std::size_t at = 0; at < file.size(); at += block_bytes) {  // d of 1 to 2
      file[at + (ggml == GGML_TYPE_IQ1_M ? 55 : 1)] = 0x3C;
      if (ggml == GGML_TYPE_IQ1_M) file[at + 53] = 0xC0;
    }
    return file;
  }
  std::vector<float> values(static_cast<std::size_t>(rows * k));
  std::normal_distribution<float> normal;
  for (float& value : values) value = normal(random);
  ggml_quantize_chunk(ggml, values.data(), file.data(), 0, rows, k, nullptr);
  return file;
}

// Ours in tiles.
Product block_product(const std::string& isa, blocks::Type type, std::int64_t k) {
  constexpr std::int64_t rows = 4 * blocks::tile_rows;
  const ggml_type ggml = ggml_type_of(type);
  const std::size_t row_bytes = ggml_row_size(ggml, k);
  const Panel file = random_blocks(ggml, rows, k);
  const bool is_ggml = isa == "ggml";
  const std::int64_t tile_bytes = blocks::tile_bytes(type, k);
  Product p{isa,     rows,    is_ggml ? static_cast<std::int64_t>(file.size()) : rows / blocks::tile_rows * tile_bytes,
            true,    nullptr, nullptr,
            nullptr, nullptr, {}};
  if (is_ggml) {
    const ggml_type_traits_cpu* traits = ggml_get_type_traits_cpu(ggml);
    const std::size_t column_bytes = ggml_row_size(traits->vec_dot_type, k);
    p.weights = file;
    p.scratch_bytes = [](std::int64_t) { return std::size_t{0}; };
    p.pack = [=](const std::vector<float>& x, std::int64_t n) {
      Panel panel(static_cast<std::size_t>(n) * column_bytes);
      const auto round = ggml_get_type_traits_cpu(traits->vec_dot_type)->from_float;
      for (std::int64_t c = 0; c < n; ++c)
        round(x.data() + c * k, panel.data() + static_cast<std::size_t>(c) * column_bytes, k);
      return panel;
    };
    p.multiply = [=](const std::uint8_t* piece, const Panel& panel, std::int64_t n, float* out, std::uint8_t*) {
      multiply_by_ggml(traits->vec_dot, k, piece, row_bytes, rows, panel.data(), column_bytes, n, out);
    };
    return p;
  }
  const blocks::Kernels& kernels = specdec::pick(blocks::all_kernels(), *specdec::select_isa(isa).isa);
  p.weights.resize(static_cast<std::size_t>(p.piece_bytes));
  for (std::int64_t tile = 0; tile < rows / blocks::tile_rows; ++tile) {
    blocks::write_tile(type, file.data() + static_cast<std::size_t>(tile * blocks::tile_rows) * row_bytes,
                       static_cast<std::int64_t>(row_bytes), blocks::tile_rows, k,
                       p.weights.data() + tile * tile_bytes);
  }
  p.scratch_bytes = [](std::int64_t n) { return blocks::scratch_bytes(n); };
  p.pack = [=, &kernels](const std::vector<float>& x, std::int64_t n) {
    Panel panel(blocks::panel_bytes(n, k));
    for (std::int64_t c = 0; c < n; ++c) {
      kernels.pack(type, x.data() + c * k, n, k, c, 0, k / blocks::block_size,
                   reinterpret_cast<blocks::PanelBlock*>(panel.data()));
    }
    return panel;
  };
  p.multiply = [=, &kernels](const std::uint8_t* piece, const Panel& panel, std::int64_t n, float* out,
                             std::uint8_t* scratch) {
    const blocks::Matrix matrix{type, nullptr, 0, k, piece};
    kernels.matmul(matrix, reinterpret_cast<const blocks::PanelBlock*>(panel.data()), n, 0, rows, out, rows, scratch);
  };
  return p;
}

// Shared by all threads: the weights, and the activations of each case.
struct Setup {
  Product product;
  std::int64_t k, pieces;
  Memory weights;
  std::vector<Case> cases;
  std::vector<Panel> panels;
};

Product make_product(const Options& options, const std::string& isa, std::int64_t k) {
  const std::string& type = options.type;
  if (const std::optional<blocks::Type> block = block_type(type)) return block_product(isa, *block, k);
  if (type != "e2m3") return float_product(isa, type, k);
  const Kernels& kernels = specdec::pick(all_kernels(), *specdec::select_isa(isa).isa);
  return mxfp6_product(kernels, k);
}

Setup make_setup(const Options& options, const std::string& isa, std::int64_t k) {
  Setup s{make_product(options, isa, k), k, 0, nullptr, {}, {}};
  s.pieces = options.mib * (1 << 20) / s.product.piece_bytes;
  const auto bytes = static_cast<std::size_t>(s.pieces * s.product.piece_bytes);
  s.weights = allocate(bytes, options.pages == "huge");
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < bytes; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    s.weights[i] =
        s.product.weights.empty() ? s.product.weight_byte(i, state) : s.product.weights[i % s.product.weights.size()];
  }
  s.cases = {{Case::Kind::read, 0}, {Case::Kind::peak, 0}};
  for (const std::int64_t n : options.n) s.cases.push_back({Case::Kind::matmul, n});
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const Case& c : s.cases) {
    std::vector<float> x(static_cast<std::size_t>(c.n * k));
    for (auto& value : x) value = normal(random);
    s.panels.push_back(c.n > 0 ? s.product.pack(x, c.n) : Panel());
  }
  return s;
}

// One thread's cyclic walk through pieces [first, last). It continues from case to case, so that weights are always
// cold.
class Walker {
 public:
  Walker(const Setup& setup, std::int64_t first, std::int64_t last)
      : setup_(setup), first_(first), last_(last), piece_(first), rates_(setup.cases.size()) {
    std::int64_t widest = 1;
    for (const Case& c : setup.cases) widest = std::max(widest, c.n);
    scratch_.resize(setup.product.scratch_bytes(widest));
    out_.resize(static_cast<std::size_t>(widest * setup.product.piece_rows));
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
  double run_piece(std::size_t index) {
    const Case& c = setup_.cases[index];
    const Product& product = setup_.product;
    if (c.kind == Case::Kind::peak)
      return 2.0 *
             static_cast<double>((product.int8 ? bench::int8_multiply_adds : bench::f32_multiply_adds)(product.isa));
    if (piece_ == last_) piece_ = first_;
    const std::uint8_t* weights = setup_.weights.get() + piece_++ * product.piece_bytes;
    if (c.kind == Case::Kind::read) read_all(weights, static_cast<std::size_t>(product.piece_bytes));
    else product.multiply(weights, setup_.panels[index], c.n, out_.data(), scratch_.data());
    return static_cast<double>(product.piece_bytes);
  }

  const Setup& setup_;
  std::int64_t first_, last_, piece_;
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

void measure(const Options& options, const Setup& setup, std::int64_t threads) {
  std::vector<Walker> walkers;
  for (std::int64_t t = 0; t < threads; ++t)
    walkers.emplace_back(setup, setup.pieces * t / threads, setup.pieces * (t + 1) / threads);
  run_rounds(setup, walkers, options.rounds);

  const auto rate = [&](std::size_t index) {
    double sum = 0;
    for (const Walker& walker : walkers) sum += walker.rate(index);
    return sum;
  };
  const double limit_bytes = rate(0), limit_ops = rate(1);
  const Product& product = setup.product;
  std::printf("%s %s %s, k = %lld, %lld thread(s): read %.1f GB/s, %s peak %.0f GOP/s\n", product.isa.c_str(),
              options.type.c_str(), product.int8 ? "int8" : "f32", static_cast<long long>(setup.k),
              static_cast<long long>(threads), limit_bytes / 1e9, product.int8 ? "int8" : "f32", limit_ops / 1e9);
  const double weights_per_byte =
      static_cast<double>(product.piece_rows * setup.k) / static_cast<double>(product.piece_bytes);
  std::printf("   n    GB/s  of read    GOP/s  of peak\n");
  for (std::size_t i = 2; i < setup.cases.size(); ++i) {
    const double bytes = rate(i), ops = 2.0 * bytes * weights_per_byte * static_cast<double>(setup.cases[i].n);
    std::printf("%4lld  %6.1f  %6.1f%%  %7.0f  ", static_cast<long long>(setup.cases[i].n), bytes / 1e9,
                100 * bytes / limit_bytes, ops / 1e9);
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
    else if (flag == "--rounds") options.rounds = std::atoi(value.c_str());
    else if (flag == "--threads") options.threads = bench::numbers<std::int64_t>(value);
    else if (flag == "--k") options.k = bench::numbers<std::int64_t>(value);
    else if (flag == "--n") options.n = bench::numbers<std::int64_t>(value);
    else if (flag == "--pages") options.pages = value;
    else if (flag == "--mib") options.mib = std::atoll(value.c_str());
    else return false;
  }
  const std::vector<std::string> types = {"e2m3", "f16", "bf16", "f32"};
  return options.rounds > 0 &&
         (block_type(options.type) || std::find(types.begin(), types.end(), options.type) != types.end());
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr, "bad arguments; see the top of bench/products/matmul.cpp\n");
    return 2;
  }
  const bool is_ggml = options.isa == "ggml" && options.type != "e2m3";
  const specdec::IsaSelection selection = specdec::select_isa(is_ggml ? "" : options.isa);
  if (selection.isa == nullptr) {
    std::fprintf(stderr, "%s\n", selection.error.c_str());
    return 1;
  }
  ggml_cpu_init();
  const std::string isa = is_ggml ? "ggml" : selection.isa->name;
  for (const std::int64_t k : options.k) {
    const Setup setup = make_setup(options, isa, k);
    for (const std::int64_t threads : options.threads) measure(options, setup, threads);
  }
  return 0;
}
