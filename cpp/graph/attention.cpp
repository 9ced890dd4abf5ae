#include "graph/attention.h"

#include <algorithm>
#include <cstdint>

#include "attention/kernels.h"
#include "base/index.h"
#include "base/isa.h"
#include "ggml-backend-impl.h"
#include "ggml-cpu-impl.h"
#include "ggml-impl.h"
#include "graph/branches.h"
#include "traits.h"

namespace specdec {
namespace {

using attention::Problem;

bool in_floats = false;

// Scale, max bias, soft cap.
float parameter(const ggml_tensor* op, int index) { return ggml_get_op_params_f32(op, index); }

bool row_fits(const ggml_tensor* t) {
  const bool type = t->type == GGML_TYPE_F16 || (t->type == GGML_TYPE_Q8_0 && t->ne[0] % 32 == 0);
  return type && t->nb[0] == ggml_type_size(t->type) && t->ne[0] % attention::lanes == 0 &&
         t->ne[0] <= attention::max_head_size;
}

bool is_supported(const ggml_tensor* op) {
  const ggml_tensor *q = op->src[0], *k = op->src[1], *v = op->src[2], *mask = op->src[3], *sinks = op->src[4];
  const bool plain = sinks == nullptr && parameter(op, 1) == 0.0f && parameter(op, 2) == 0.0f;
  const bool query = q->type == GGML_TYPE_F32 && q->nb[0] == sizeof(float);
  const bool masked = mask == nullptr || (mask->type == GGML_TYPE_F16 && mask->ne[2] == 1);
  const bool cells = row_fits(k) && row_fits(v) && k->type == v->type && k->ne[1] % attention::block_cells == 0;
  return plain && query && masked && cells && k->ne[2] == v->ne[2] && q->ne[3] == k->ne[3] && q->ne[3] == v->ne[3];
}

int value_size(const ggml_tensor* op) { return static_cast<int>(op->src[2]->ne[0]); }

// How an operation is divided among threads. Results do not depend on it.
//
// The division is by cells if the states of all chunks are not too large: a unit is a chunk, a part of the rows and one
// head (heads innermost), and a thread gets consecutive units. Otherwise it is by rows: a unit is a head and a part of
// the rows.
struct Division {
  Division(const ggml_tensor* op, int num_threads) {
    const ggml_tensor *q = op->src[0], *k = op->src[1];
    cells = k->ne[1];
    heads = k->ne[2];
    groups = heads * k->ne[3];
    rows = q->ne[1] * (q->ne[2] / heads);
    chunks = (cells + attention::chunk_cells - 1) / attention::chunk_cells;
    state = attention::state_floats(value_size(op));
    by_cells = groups * chunks * rows * state <= max_chunk_states;
    const std::int64_t others = groups * (by_cells ? chunks : 1);
    const std::int64_t wanted = (num_threads + others - 1) / others;  // so that every thread has a unit
    parts = std::max((rows + attention::max_rows - 1) / attention::max_rows, std::min(wanted, rows));
    states = by_cells ? groups * chunks * rows * state : 2 * num_threads * attention::max_rows * state;
    scratch = whole_lines(attention::scratch_floats(static_cast<int>(k->ne[0]), value_size(op)));
  }

  static std::int64_t whole_lines(std::size_t floats) { return static_cast<std::int64_t>((floats + 15) / 16 * 16); }

  std::int64_t part_begin(std::int64_t part) const { return rows * part / parts; }

  // The first unit of a thread in a division by cells, chosen so that all threads read about the same number of cells.
  std::int64_t first_unit(std::int64_t thread, std::int64_t num_threads) const {
    const std::int64_t per_chunk = groups * parts, at = cells * per_chunk * thread / num_threads;
    const std::int64_t chunk = at / (attention::chunk_cells * per_chunk), begin = chunk * attention::chunk_cells;
    const std::int64_t size = std::max<std::int64_t>(1, std::min<std::int64_t>(attention::chunk_cells, cells - begin));
    return chunk * per_chunk + (at - begin * per_chunk) / size;
  }

  static constexpr std::int64_t max_chunk_states = 4 << 20;  // floats

  std::int64_t cells, chunks;  // of the cache
  std::int64_t heads, groups;  // key-value heads of one stream, of all streams
  std::int64_t rows, parts;    // rows per head; parts that they are divided into
  bool by_cells;
  std::int64_t state;            // floats per row
  std::int64_t states, scratch;  // floats: of all states; of a thread's scratch memory
};

// q f32 [size, queries, heads, streams]; k, v f16 or q8_0 [size, cells, kv heads, streams]; mask f16 [cells, queries,
// 1, streams or 1]; dst f32 [value size, heads, queries, streams].
class Attention final : public ggml::cpu::tensor_traits {
 public:
  bool work_size(int num_threads, const ggml_tensor* op, size_t& size) override {
    const Division d(op, num_threads);
    size = idx(d.states + num_threads * (d.scratch + gap_floats(op))) * sizeof(float) + alignment;
    return true;
  }

  bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
    const Division d(op, params->nth);
    const auto address = reinterpret_cast<std::uintptr_t>(params->wdata);
    float* states = reinterpret_cast<float*>((address + alignment - 1) / alignment * alignment);
    float* scratch = states + d.states + params->ith * (d.scratch + gap_floats(op));
    const Gaps gaps(d, op, scratch + d.scratch);
    if (d.by_cells) {
      read_by_cells(d, params, op, gaps, states, scratch);
      if (gaps.has_any()) {
        ggml_barrier(params->threadpool);
        read_gaps(d, params, op, gaps, states, scratch);
      }
      ggml_barrier(params->threadpool);
      merge_chunks(d, params, op, states);
    } else {
      read_by_rows(d, params, op, gaps, states + 2 * params->ith * attention::max_rows * d.state, scratch);
    }
    return true;
  }

 private:
  static constexpr std::size_t alignment = 64;

  static const attention::Kernels& kernels() {
    static const attention::Kernels& chosen = pick(attention::all_kernels());
    return chosen;
  }

  static std::int64_t gap_floats(const ggml_tensor* op) {
    return Division::whole_lines(CellsWithoutGaps::memory_bytes(problem_of(op, 0)) / sizeof(float));
  }

  // Where the cells of each stream have gaps (branches.h).
  class Gaps {
   public:
    Gaps(const Division& d, const ggml_tensor* op, float* memory)
        : memory_(reinterpret_cast<char*>(memory)), num_cells_(d.cells) {
      const std::int64_t num_streams = op->src[1]->ne[3], num_queries = op->src[0]->ne[1];
      for (std::int64_t stream = 0; stream < num_streams && stream < most_streams; ++stream) {
        begins_[stream] = num_queries <= most_queries ? gaps_begin(problem_of(op, stream), num_queries) : d.cells;
        has_any_ = has_any_ || begins_[stream] < d.cells;
      }
    }
    bool has_any() const { return has_any_; }
    std::int64_t begin(std::int64_t stream) const { return stream < most_streams ? begins_[stream] : num_cells_; }

    // Adds the cells from begin() on to the states of some rows of one head after a chunk.
    void read(const Problem& problem, std::int64_t stream, const attention::Rows& rows, std::int64_t chunk,
              float* states, float* scratch) const {
      const std::int64_t end = attention::chunk_range(chunk, num_cells_).end;
      if (end <= begin(stream)) return;
      for (std::int64_t row = rows.begin, next = 0; row < rows.end; row = next) {
        const std::int64_t query = row / problem.group;
        next = std::min(rows.end, (query + 1) * problem.group);
        const CellsWithoutGaps cells(problem, begin(stream), query, rows.head_begin, memory_);
        const attention::CellRange range{std::max(begin(stream), attention::chunk_range(chunk, num_cells_).begin),
                                         std::min(end, cells.problem().num_cells)};
        kernels().read(cells.problem(), {rows.head_begin, rows.head_end, row, next}, range,
                       states + (row - rows.begin) * attention::state_floats(problem.value_size), 0, scratch);
      }
    }

   private:
    static constexpr std::int64_t most_streams = 256, most_queries = 128;
    char* const memory_;
    const std::int64_t num_cells_;
    std::int64_t begins_[most_streams];
    bool has_any_ = false;
  };

  static attention::CellRange before_gaps(const Division& d, const Gaps& gaps, std::int64_t stream,
                                          std::int64_t chunk) {
    attention::CellRange range = attention::chunk_range(chunk, d.cells);
    range.end = std::max(range.begin, std::min(range.end, gaps.begin(stream)));
    return range;
  }

  // Units: a query and one head. Each belongs to one thread, whatever chunks its cells with gaps are in.
  static void read_gaps(const Division& d, const ggml_compute_params* params, ggml_tensor* op, const Gaps& gaps,
                        float* states, float* scratch) {
    const std::int64_t num_queries = op->src[0]->ne[1], group_rows = d.rows / num_queries;
    for (std::int64_t unit = params->ith; unit < d.groups * num_queries; unit += params->nth) {
      const std::int64_t group = unit / num_queries, query = unit % num_queries, head = group % d.heads;
      const attention::Rows rows{head, head + 1, query * group_rows, (query + 1) * group_rows};
      for (std::int64_t chunk = 0; chunk < d.chunks; ++chunk) {
        float* first = states + ((chunk * d.groups + group) * d.rows + rows.begin) * d.state;
        gaps.read(problem_of(op, group / d.heads), group / d.heads, rows, chunk, first, scratch);
      }
    }
  }

  // states[chunk][group][row]
  static void read_by_cells(const Division& d, const ggml_compute_params* params, ggml_tensor* op, const Gaps& gaps,
                            float* states, float* scratch) {
    const std::int64_t end = d.first_unit(params->ith + 1, params->nth);
    for (std::int64_t unit = d.first_unit(params->ith, params->nth), count = 0; unit < end; unit += count) {
      const std::int64_t group = unit % d.groups, part = unit / d.groups % d.parts, chunk = unit / d.groups / d.parts;
      const std::int64_t head = group % d.heads;
      count = std::min(d.heads - head, end - unit);
      const attention::Rows rows{head, head + count, d.part_begin(part), d.part_begin(part + 1)};
      float* first = states + ((chunk * d.groups + group) * d.rows + rows.begin) * d.state;
      kernels().read(problem_of(op, group / d.heads), rows, before_gaps(d, gaps, group / d.heads, chunk), first,
                     d.rows * d.state, scratch);
    }
  }

  static void merge_chunks(const Division& d, const ggml_compute_params* params, ggml_tensor* op, float* states) {
    const std::int64_t total = d.groups * d.rows, end = total * (params->ith + 1) / params->nth;
    for (std::int64_t at = total * params->ith / params->nth, count = 0; at < end; at += count) {
      const std::int64_t group = at / d.rows, first = at % d.rows;
      count = std::min(d.rows - first, end - at);
      float* merged = states + at * d.state;
      for (std::int64_t chunk = 1; chunk < d.chunks; ++chunk) {
        kernels().merge(value_size(op), count, merged, merged + chunk * total * d.state);
      }
      kernels().finish(problem_of(op, group / d.heads), group % d.heads, first, first + count, merged);
    }
  }

  static void read_by_rows(const Division& d, const ggml_compute_params* params, ggml_tensor* op, const Gaps& gaps,
                           float* states, float* scratch) {
    float* later = states + attention::max_rows * d.state;
    for (std::int64_t unit = params->ith; unit < d.groups * d.parts; unit += params->nth) {
      const std::int64_t part = unit % d.parts, group = unit / d.parts, head = group % d.heads;
      const attention::Rows rows{head, head + 1, d.part_begin(part), d.part_begin(part + 1)};
      const std::int64_t stream = group / d.heads;
      const Problem problem = problem_of(op, stream);
      for (std::int64_t chunk = 0; chunk < d.chunks; ++chunk) {
        float* const to = chunk == 0 ? states : later;
        kernels().read(problem, rows, before_gaps(d, gaps, stream, chunk), to, 0, scratch);
        gaps.read(problem, stream, rows, chunk, to, scratch);
        if (chunk > 0) kernels().merge(value_size(op), rows.end - rows.begin, states, later);
      }
      kernels().finish(problem, head, rows.begin, rows.end, states);
    }
  }

  static Problem problem_of(const ggml_tensor* op, std::int64_t stream) {
    const ggml_tensor *q = op->src[0], *k = op->src[1], *v = op->src[2], *mask = op->src[3];
    const auto stride = [](std::size_t bytes) { return static_cast<std::int64_t>(bytes); };
    const auto start = [&](const ggml_tensor* t, std::int64_t i3) {
      return static_cast<const char*>(t->data) + i3 * stride(t->nb[3]);
    };
    Problem p{};
    p.queries = start(q, stream);
    p.query_stride = stride(q->nb[1]);
    p.query_head_stride = stride(q->nb[2]);
    p.keys = start(k, stream);
    p.key_stride = stride(k->nb[1]);
    p.key_head_stride = stride(k->nb[2]);
    p.values = start(v, stream);
    p.value_stride = stride(v->nb[1]);
    p.value_head_stride = stride(v->nb[2]);
    if (mask != nullptr) {
      p.mask = start(mask, stream % mask->ne[3]);
      p.mask_stride = stride(mask->nb[1]);
    }
    p.out = static_cast<char*>(op->data) + stream * stride(op->nb[3]);
    p.out_stride = stride(op->nb[2]);
    p.out_head_stride = stride(op->nb[1]);
    p.num_cells = k->ne[1];
    p.type = k->type == GGML_TYPE_Q8_0 ? attention::CacheType::q8_0 : attention::CacheType::f16;
    p.head_size = static_cast<int>(k->ne[0]);
    p.value_size = value_size(op);
    p.group = static_cast<int>(q->ne[2] / k->ne[2]);
    p.scale = parameter(op, 0);
    p.in_floats = in_floats;
    return p;
  }
};

}  // namespace

ggml::cpu::tensor_traits* attention_traits(const ggml_tensor* op) {
  static Attention attention;
  return op->op == GGML_OP_FLASH_ATTN_EXT && is_supported(op) ? &attention : nullptr;
}

void compute_attention_in_floats(bool wanted) { in_floats = wanted; }

}  // namespace specdec
