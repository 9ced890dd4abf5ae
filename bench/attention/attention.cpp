// Times attention over a long KV cache, compared with the limits of this machine and with llama.cpp's own operation,
// all interleaved in one run. The limits: read bandwidth (if few rows share a key) and F32 multiply-add rate (if many
// do).
//
// With a cache in Q8_0, which is multiplied in integers, our arithmetic in F32 is timed beside it.
//
// All run FLASH_ATTN_EXT in a ggml graph on the same tensors, with our op hook and without. Calls go through more
// layers than fit the CPU caches, so that keys and values are cold, as in a model. Times and limits are tenth
// percentiles, because the machine may be shared.
//
// Usage: bench_attention [--isa NAME] [--shape NAME,NAME] [--kv f16|q8_0] [--rounds R] [--threads T,T] [--cached C,C]
// [--n N,N]
//                        [--stock 0|1] [--pages small|huge]
#include "graph/attention.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/isa.h"
#include "common/machine.h"
#include "common/peak.h"
#include "ggml-alloc.h"
#include "ggml-backend-impl.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "llama/backend.h"
#include "traits.h"
#if defined(__linux__)
#include <sys/prctl.h>
#endif

namespace {

using bench::now;

struct Shape {
  const char* name;
  int heads, kv_heads, head_size;
};

constexpr Shape shapes[] = {
    {"1.1b", 32, 4, 64}, {"1.5b", 12, 2, 128}, {"8b", 32, 8, 128}, {"7b", 32, 32, 128}, {"wide", 64, 64, 64}};

struct Options {
  std::string isa, kv = "f16", pages = "huge";
  std::vector<std::string> shapes = {"1.1b", "8b", "7b", "wide"};
  std::vector<int> threads = {1, 2}, cached = {512, 4096, 16384}, n = {1, 2, 4, 8, 16};
  int rounds = 7;
  bool stock = true;
};

constexpr std::size_t cold_bytes = 128u << 20;  // of keys and values, at least
constexpr double slice_seconds = 20e-3;         // of one case in one round, at least one call

// The tenth percentile, or the lowest of fewer than ten: other work on the machine only makes times longer.
double fast(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times.empty() ? 0 : times[times.size() / 10];
}

// --- the limits -------------------------------------------------------------------------------------------------

// The total rate of `threads` threads that start together: work(thread) runs for a fraction of a millisecond and
// returns how much it did.
double rate_of(int threads, const std::function<double(int)>& work) {
  std::atomic<int> arrived{0};
  std::vector<double> rates(static_cast<std::size_t>(threads));
  const auto run = [&](int thread) {
    arrived.fetch_add(1);
    while (arrived.load() < threads) std::this_thread::yield();
    std::vector<double> times;
    double done = 0;
    for (const double end = now() + slice_seconds; now() < end;) {
      const double begin = now();
      done = work(thread);
      times.push_back(now() - begin);
    }
    rates[static_cast<std::size_t>(thread)] = done / fast(times);
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(run, t);
  run(0);
  for (auto& other : others) other.join();
  double sum = 0;
  for (const double rate : rates) sum += rate;
  return sum;
}

// --- the operation ----------------------------------------------------------------------------------------------

struct Free {
  void operator()(ggml_context* context) const { ggml_free(context); }
  void operator()(ggml_threadpool* pool) const { ggml_threadpool_free(pool); }
  void operator()(ggml_backend_buffer* buffer) const { ggml_backend_buffer_free(buffer); }
};

// Keys and values of several layers in llama.cpp's layout, [head size, kv heads, cells], in their own buffer with huge
// pages.
class Cache {
 public:
  Cache(const Shape& shape, ggml_type type, int cells) : shape_(shape), cells_(cells) {
    const auto rows = static_cast<std::size_t>(shape.kv_heads) * static_cast<std::size_t>(cells);
    const std::size_t layer = 2 * ggml_row_size(type, shape.head_size) * rows;
    const std::size_t layers = (cold_bytes + layer - 1) / layer;
    bytes_ = layer * layers;
    ggml_init_params params{};
    params.mem_size = 2 * layers * ggml_tensor_overhead();
    params.no_alloc = true;
    context_.reset(ggml_init(params));
    for (std::size_t i = 0; i < layers; ++i) {
      for (auto* list : {&keys_, &values_}) {
        list->push_back(ggml_new_tensor_3d(context_.get(), type, shape.head_size, shape.kv_heads, cells));
      }
    }
    buffer_.reset(ggml_backend_alloc_ctx_tensors_from_buft(context_.get(), ggml_backend_cpu_buffer_type()));
    for (auto* list : {&keys_, &values_}) {
      for (ggml_tensor* tensor : *list) fill(tensor);
    }
  }

  std::size_t layers() const { return keys_.size(); }
  std::size_t bytes() const { return bytes_; }
  const char* data() const { return static_cast<const char*>(keys_.front()->data); }

  // Bytes of the queries, mask and result of a call.
  std::size_t call_bytes(int n) const {
    const auto floats = 2 * static_cast<std::size_t>(shape_.heads) * static_cast<std::size_t>(shape_.head_size);
    return static_cast<std::size_t>(n) * (sizeof(float) * floats + 2 * static_cast<std::size_t>(cells_));
  }

  // Attention of n queries over layer i after `cached` cells.
  ggml_tensor* attention(ggml_context* context, std::size_t i, int n, int cached) const {
    const auto heads_last = [&](ggml_tensor* t) { return ggml_permute(context, t, 0, 2, 1, 3); };
    ggml_tensor* q = ggml_new_tensor_3d(context, GGML_TYPE_F32, shape_.head_size, shape_.heads, n);
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (std::int64_t j = 0; j < ggml_nelements(q); ++j) static_cast<float*>(q->data)[j] = normal(random);
    ggml_tensor* mask = ggml_new_tensor_2d(context, GGML_TYPE_F16, cells_, n);
    auto* hidden = static_cast<std::uint16_t*>(mask->data);
    for (int row = 0; row < n; ++row) {
      for (int cell = 0; cell < cells_; ++cell) hidden[row * cells_ + cell] = cell <= cached + row ? 0 : 0xFC00;
    }
    return ggml_flash_attn_ext(context, heads_last(q), heads_last(keys_[i]), heads_last(values_[i]), mask,
                               1.0f / static_cast<float>(shape_.head_size), 0.0f, 0.0f);
  }

 private:
  // Small numbers: halves of 2^-4 .. 2, or blocks of 32 bytes with such a scale, which is positive.
  static void fill(ggml_tensor* t) {
    std::uint64_t state = 1;
    auto* bytes = static_cast<std::uint8_t*>(t->data);
    const std::uint64_t sign = t->type == GGML_TYPE_F16 ? 0x8000 : 0;
    const auto half = [&] {
      return static_cast<std::uint16_t>((state >> 48 & sign) | (11 + (state >> 40) % 4) << 10 | (state >> 20 & 1023));
    };
    for (std::size_t at = 0; at < ggml_nbytes(t);) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const bool is_scale = t->type == GGML_TYPE_F16 || at % 34 == 0;
      const std::uint16_t value = is_scale ? half() : static_cast<std::uint16_t>(state >> 33);
      std::memcpy(bytes + at, &value, 2);
      at += 2;
    }
  }

  Shape shape_;
  int cells_;
  std::size_t bytes_ = 0;
  std::unique_ptr<ggml_context, Free> context_;
  std::unique_ptr<ggml_backend_buffer, Free> buffer_;
  std::vector<ggml_tensor*> keys_, values_;
};

// One graph per layer; successive calls use successive layers.
class Calls {
 public:
  Calls(const Cache& cache, int n, int cached, ggml_threadpool* pool, int threads) : pool_(pool), threads_(threads) {
    ggml_init_params params{};
    params.mem_size = cache.layers() * (cache.call_bytes(n) + (1u << 20));
    context_.reset(ggml_init(params));
    ggml_tensor* first = nullptr;
    for (std::size_t i = 0; i < cache.layers(); ++i) {
      ggml_tensor* result = cache.attention(context_.get(), i, n, cached);
      if (first != nullptr) result->src[3] = first->src[3];  // one mask for all layers
      else first = result;
      graphs_.push_back(ggml_new_graph_custom(context_.get(), 16, false));
      ggml_build_forward_expand(graphs_.back(), result);
    }
  }

  double seconds() {
    ggml_cgraph* graph = graphs_[next_++ % graphs_.size()];
    ggml_cplan plan = ggml_graph_plan(graph, threads_, pool_);
    if (work_.size() < plan.work_size) work_.resize(plan.work_size);
    plan.work_data = work_.data();
    const double begin = now();
    ggml_graph_compute(graph, &plan);
    return now() - begin;
  }

 private:
  ggml_threadpool* pool_;
  int threads_;
  std::unique_ptr<ggml_context, Free> context_;
  std::vector<ggml_cgraph*> graphs_;
  std::size_t next_ = 0;
  std::vector<std::uint8_t> work_;
};

// Turns our op hook off or on.
void use_hook(bool wanted) {
  auto& types = ggml_backend_cpu_get_extra_buffer_types();
  static const ggml_backend_buffer_type_t hook = types.back();
  const bool present = !types.empty() && types.back() == hook;
  if (wanted && !present) types.push_back(hook);
  if (!wanted && present) types.pop_back();
}

enum class Arithmetic { ours, ours_in_floats, stock };

void slice(Calls& calls, Arithmetic arithmetic, std::vector<double>& times) {
  use_hook(arithmetic != Arithmetic::stock);
  specdec::compute_attention_in_floats(arithmetic == Arithmetic::ours_in_floats);
  const double end = now() + slice_seconds;
  calls.seconds();  // wakes the threads
  do times.push_back(calls.seconds());
  while (now() < end);
  use_hook(true);
  specdec::compute_attention_in_floats(false);
}

void run(const Options& options, const Shape& shape, int cached) {
  const ggml_type type = options.kv == "q8_0" ? GGML_TYPE_Q8_0 : GGML_TYPE_F16;
  const int most = *std::max_element(options.n.begin(), options.n.end());
  const Cache cache(shape, type, (cached + most + 255) / 256 * 256);
  const double row_bytes = 2.0 * static_cast<double>(ggml_row_size(type, shape.head_size)) * shape.kv_heads;
  for (const int threads : options.threads) {
    ggml_threadpool_params params = ggml_threadpool_params_default(threads);
    const std::unique_ptr<ggml_threadpool, Free> pool(ggml_threadpool_new(&params));
    std::vector<std::unique_ptr<Calls>> calls;
    for (const int n : options.n) calls.push_back(std::make_unique<Calls>(cache, n, cached, pool.get(), threads));
    std::vector<std::vector<double>> ours(calls.size()), floats(calls.size()), stock(calls.size());
    std::vector<double> reads, peaks;
    for (int round = 0; round < options.rounds; ++round) {
      const std::size_t share = cache.bytes() / static_cast<std::size_t>(threads);
      std::vector<std::size_t> at(static_cast<std::size_t>(threads), 0);
      constexpr std::size_t piece = 256u << 10;
      reads.push_back(rate_of(threads, [&](int t) {
        std::size_t& offset = at[static_cast<std::size_t>(t)];
        if (offset + piece > share) offset = 0;
        offset += piece;
        bench::read_all(cache.data() + static_cast<std::size_t>(t) * share + offset - piece, piece);
        return static_cast<double>(piece);
      }));
      peaks.push_back(
          rate_of(threads, [&](int) { return 2.0 * static_cast<double>(bench::f32_multiply_adds(options.isa)); }));
      for (std::size_t i = 0; i < calls.size(); ++i) {
        slice(*calls[i], Arithmetic::ours, ours[i]);
        if (type == GGML_TYPE_Q8_0) slice(*calls[i], Arithmetic::ours_in_floats, floats[i]);
        if (options.stock) slice(*calls[i], Arithmetic::stock, stock[i]);
      }
    }
    const double read = bench::median(reads), peak = bench::median(peaks);
    std::printf(
        "%s %s: %d heads of %d, %d kv heads; kv %s, %d cached, %d thread(s): read %.1f GB/s, f32 peak %.0f GFLOP/s\n",
        options.isa.c_str(), shape.name, shape.heads, shape.head_size, shape.kv_heads, options.kv.c_str(), cached,
        threads, read / 1e9, peak / 1e9);
    std::printf("   n       us  GFLOP/s  of peak    GB/s  of read");
    if (type == GGML_TYPE_Q8_0) std::printf("   in F32 us  times");
    std::printf(options.stock ? "  llama.cpp us  times\n" : "\n");
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const double time = fast(ours[i]), other = fast(stock[i]);
      const double operations = 4.0 * shape.heads * shape.head_size * options.n[i] * cached;
      std::printf("%4d  %7.0f  %7.1f  %6.1f%%  %6.2f  %6.1f%%", options.n[i], 1e6 * time, operations / time / 1e9,
                  peak > 0 ? 100 * operations / time / peak : 0.0, row_bytes * cached / time / 1e9,
                  100 * row_bytes * cached / time / read);
      if (type == GGML_TYPE_Q8_0) std::printf("  %10.0f  %5.2f", 1e6 * fast(floats[i]), fast(floats[i]) / time);
      if (options.stock) std::printf("  %12.0f  %5.1f", 1e6 * other, other / time);
      std::printf("\n");
    }
    std::fflush(stdout);
  }
}

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (i + 1 == argc) return false;
    const std::string value = argv[i + 1];
    if (flag == "--isa") options.isa = value;
    else if (flag == "--shape") options.shapes = bench::words(value);
    else if (flag == "--kv") options.kv = value;
    else if (flag == "--pages") options.pages = value;
    else if (flag == "--rounds") options.rounds = std::max(1, std::atoi(value.c_str()));
    else if (flag == "--threads") options.threads = bench::numbers<int>(value);
    else if (flag == "--cached") options.cached = bench::numbers<int>(value);
    else if (flag == "--n") options.n = bench::numbers<int>(value);
    else if (flag == "--stock") options.stock = value != "0";
    else return false;
  }
  return options.kv == "f16" || options.kv == "q8_0";
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr, "bad arguments; see the top of bench/attention/attention.cpp\n");
    return 2;
  }
#if !defined(_WIN32)
  if (!options.isa.empty()) setenv("SPECDEC_ISA", options.isa.c_str(), 1);
#endif
#if defined(__linux__)
  if (options.pages == "small") prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
#endif
  specdec::start_backend();
  options.isa = specdec::default_isa().isa->name;
  for (const std::string& name : options.shapes) {
    const Shape* shape =
        std::find_if(std::begin(shapes), std::end(shapes), [&](const Shape& s) { return name == s.name; });
    if (shape == std::end(shapes)) {
      std::fprintf(stderr, "no shape \"%s\"; there are 1.1b, 1.5b, 8b, 7b and wide\n", name.c_str());
      return 2;
    }
    for (const int cached : options.cached) run(options, *shape, cached);
  }
}
