// The algorithm in F32, written over sixteen lanes; included by attention_int8.h in one file per instruction set, which
// defines in an anonymous namespace
//   Lanes                             sixteen floats
//   load, store, broadcast, add, multiply
//   fused                             a * b + c
//   maximum                           the second operand if either is NaN
//   largest_of, sum_of                over the lanes, folding halves
//   power_of_two_times                p * 2^n, n whole
//   half                              one F16 number
//   load_f16, load_i8                 sixteen numbers
//   load_f16_columns, load_i8_columns sixteen numbers of sixteen rows, transposed
//   load_f16_column                   the first F16 number of sixteen rows
//   full_tile                         rows of the largest tile of `product`, a power of two
//   tile_strips(rows)                 strips of a tile that fits the registers
// Everything here has internal linkage, so that the linker cannot share it between instruction sets.

constexpr float minus_infinity = -__builtin_inff();

// exp(x) for x <= 0, relative error below 2e-7, 0 below -87: 2^n * polynomial(r), x = n ln2 + r, |r| <= ln2 / 2. NaN
// stays NaN.
inline Lanes exp_not_positive(Lanes x) {
  const Lanes clamped = maximum(broadcast(-87.0f), x);
  const Lanes magic = broadcast(12582912.0f);  // 1.5 * 2^23: rounds to the nearest integer
  const Lanes n = add(fused(clamped, broadcast(1.44269504f), magic), broadcast(-12582912.0f));
  Lanes r = fused(n, broadcast(-0.693145752f), clamped);  // ln2 in two parts
  r = fused(n, broadcast(-1.42860677e-6f), r);
  Lanes p = broadcast(1.0f / 5040);
  p = fused(p, r, broadcast(1.0f / 720));
  p = fused(p, r, broadcast(1.0f / 120));
  p = fused(p, r, broadcast(1.0f / 24));
  p = fused(p, r, broadcast(1.0f / 6));
  p = fused(p, r, broadcast(0.5f));
  p = fused(p, r, broadcast(1.0f));
  p = fused(p, r, broadcast(1.0f));
  return power_of_two_times(p, n, x);
}

// --- cells to f32 -----------------------------------------------------------------------------------------------

const std::uint16_t* halves(const char* p) { return reinterpret_cast<const std::uint16_t*>(p); }

// Sixteen numbers of a row, starting with number d; exact.
template <CacheType type>
inline Lanes load_cell(const char* row, int d) {
  if constexpr (type == CacheType::f16) return load_f16(halves(row) + d);
  const char* block = row + d / 32 * 34;
  return multiply(load_i8(reinterpret_cast<const std::int8_t*>(block + 2 + d % 32)), broadcast(half(block)));
}

// The same numbers of sixteen cells: x[i] has number d + i of each.
template <CacheType type>
inline __attribute__((always_inline)) void load_cells(const char* row, std::int64_t stride, int d, Lanes (&x)[lanes]) {
  if constexpr (type == CacheType::f16) {
    load_f16_columns(row + 2 * d, stride, x);
  } else {
    const char* block = row + d / 32 * 34;
    load_i8_columns(block + 2 + d % 32, stride, x);
    const Lanes scales = load_f16_column(block, stride);
    for (int i = 0; i < lanes; ++i) x[i] = multiply(x[i], scales);
  }
}

// Prefetches lines of cells in ascending order into L2, a few at a time between the products: a burst would fill the
// queue of misses, which drops prefetches and delays loads.
class Prefetch {
 public:
  Prefetch() = default;
  // `bytes` of every cell, `stride` apart.
  Prefetch(const char* first, std::int64_t bytes, std::int64_t stride)
      : row_(first), bytes_(bytes == stride ? block_cells * bytes : bytes), stride_(stride) {}

  void lines(int count) {
    for (int i = 0; i < count; ++i) {
      __builtin_prefetch(row_ + at_, 0, 2);
      at_ += 64;
      if (at_ < bytes_) continue;
      at_ = 0;
      row_ += stride_;
    }
  }

 private:
  const char* row_ = nullptr;
  std::int64_t bytes_ = 0, stride_ = 0, at_ = 0;
};

// The cells of one head in a block, and the part of the next block to prefetch meanwhile.
template <CacheType type>
struct Cells {
  const char* row;
  std::int64_t stride;
  int size;
  Prefetch* next;

  // to[strip][d][lane]: strips of sixteen cells, transposed.
  void convert_keys(float* to) const {
    for (int cell = 0; cell < block_cells; cell += lanes, to += strip_floats(size)) {
      for (int d = 0; d < size; d += lanes) {
        Lanes x[lanes];
        load_cells<type>(row + cell * stride, stride, d, x);
        for (int i = 0; i < lanes; ++i) store(to + (d + i) * lanes, x[i]);
      }
    }
  }

  // to[strip][cell][lane]: strips of sixteen dimensions.
  void convert_values(float* to) const {
    for (int cell = 0; cell < block_cells; ++cell) {
      for (int d = 0; d < size; d += lanes) {
        store(to + d / lanes * strip_floats(block_cells) + cell * lanes, load_cell<type>(row + cell * stride, d));
      }
    }
  }
};

// --- scores and weighted values ---------------------------------------------------------------------------------

// c[row][strip][lane] = c * factors[row] (or 0 without factors) + sum over i of a[row][i] * b[strip][i][lane], i
// ascending.
struct Product {
  const float* a;  // [rows], a_stride apart
  int a_stride;
  const float* b;  // [strips][depth][lanes]
  int depth;
  float* c;  // [rows], c_stride apart
  int c_stride;
  const float* factors;  // [rows]
  Prefetch* next;

  template <int rows, int strips>
  void tile(int row, int strip) const {
    const float *a0 = a + row * a_stride, *b0 = b + strip * strip_floats(depth);
    float* c0 = c + row * c_stride + strip * lanes;
    Lanes sums[rows][strips];
    for (int r = 0; r < rows; ++r) {
      for (int s = 0; s < strips; ++s) {
        sums[r][s] = factors == nullptr ? broadcast(0.0f)
                                        : multiply(load(c0 + r * c_stride + s * lanes), broadcast(factors[row + r]));
      }
    }
    for (int i = 0; i < depth; ++i) {
      Lanes right[strips];
      for (int s = 0; s < strips; ++s) right[s] = load(b0 + s * strip_floats(depth) + i * lanes);
      if (row == 0 && (strips > 1 || i % 2 == 0)) next->lines((strips + 1) / 2);
      for (int r = 0; r < rows; ++r) {
        const Lanes left = broadcast(a0[r * a_stride + i]);
        for (int s = 0; s < strips; ++s) sums[r][s] = fused(left, right[s], sums[r][s]);
      }
    }
    for (int r = 0; r < rows; ++r) {
      for (int s = 0; s < strips; ++s) store(c0 + r * c_stride + s * lanes, sums[r][s]);
    }
  }

  // Strips in the outer loop, rows in the inner one: the strips of a tile stay in L1.
  template <int rows>
  void tiles(int row, int row_end, int num_strips) const {
    constexpr int strips = tile_strips(rows);
    int strip = 0;
    for (; strip + strips <= num_strips; strip += strips) {
      for (int r = row; r + rows <= row_end; r += rows) tile<rows, strips>(r, strip);
    }
    for (; strip < num_strips; ++strip) {
      for (int r = row; r + rows <= row_end; r += rows) tile<rows, 1>(r, strip);
    }
    if constexpr (rows > 1) tiles<rows / 2>(row + (row_end - row) / rows * rows, row_end, num_strips);
  }

  void run(int num_rows, int num_strips) const { tiles<full_tile>(0, num_rows, num_strips); }
};

// The same results for rows that fit one tile, converting cells on the fly: with one tile, converted cells are used
// only once.
template <int rows, CacheType type>
void score_directly(const float* queries, const Cells<type>& cells, float* scores) {
  for (int cell = 0; cell < block_cells; cell += lanes) {
    Lanes sums[rows];
    for (int r = 0; r < rows; ++r) sums[r] = broadcast(0.0f);
    for (int d = 0; d < cells.size; d += lanes) {
      Lanes x[lanes];
      load_cells<type>(cells.row + cell * cells.stride, cells.stride, d, x);
#pragma GCC unroll 16  // x stays in registers
      for (int i = 0; i < lanes; ++i) {
        if (i % 2 == 0) cells.next->lines(1);
        for (int r = 0; r < rows; ++r) sums[r] = fused(broadcast(queries[r * cells.size + d + i]), x[i], sums[r]);
      }
    }
    for (int r = 0; r < rows; ++r) store(scores + r * block_cells + cell, sums[r]);
  }
}

template <int rows, int strips, CacheType type>
void sum_strips_directly(const float* weights, const float* factors, const Cells<type>& cells, int d, float* out,
                         int out_stride) {
  Lanes sums[rows][strips];
  for (int r = 0; r < rows; ++r) {
    for (int s = 0; s < strips; ++s)
      sums[r][s] = multiply(load(out + r * out_stride + d + s * lanes), broadcast(factors[r]));
  }
  for (int cell = 0; cell < block_cells; ++cell) {
    if (strips > 1 || cell % 2 == 0) cells.next->lines((strips + 1) / 2);
    for (int s = 0; s < strips; ++s) {
      const Lanes x = load_cell<type>(cells.row + cell * cells.stride, d + s * lanes);
      for (int r = 0; r < rows; ++r) sums[r][s] = fused(broadcast(weights[r * block_cells + cell]), x, sums[r][s]);
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int s = 0; s < strips; ++s) store(out + r * out_stride + d + s * lanes, sums[r][s]);
  }
}

template <int rows, CacheType type>
void sum_directly(const float* weights, const float* factors, const Cells<type>& cells, float* out, int out_stride) {
  constexpr int strips = tile_strips(rows);
  int d = 0;
  for (; d + strips * lanes <= cells.size; d += strips * lanes) {
    sum_strips_directly<rows, strips>(weights, factors, cells, d, out, out_stride);
  }
  for (; d < cells.size; d += lanes) sum_strips_directly<rows, 1>(weights, factors, cells, d, out, out_stride);
}

// Calls f(Count<rows>()), so that f has the number of rows, 1 .. most, as a constant.
template <int count>
struct Count {
  static constexpr int value = count;
};

template <int most, class F>
void with_rows(int rows, F f) {
  if constexpr (most > 1) {
    if (rows < most) return with_rows<most - 1>(rows, f);
  }
  f(Count<most>());
}

// Layout of a call's scratch memory; scratch_floats gives its size.
struct Scratch {
  Scratch(float* memory, int head_size, int value_size) : keys(memory) {
    values = keys + block_cells / lanes * strip_floats(head_size);
    queries = values + value_size / lanes * strip_floats(block_cells);
    scores = queries + max_rows * head_size;
    factors = scores + max_rows * block_cells;
  }
  float *keys, *values;
  float* queries;  // [rows][head_size], scaled
  float* scores;   // [rows][block_cells], then the weights exp(score - maximum)
  float* factors;  // [rows] exp(old maximum - new maximum), which rescales the sums so far
};

float& maximum_in(float* state, int value_size) { return state[value_size]; }
float& total_in(float* state, int value_size) { return state[value_size + 1]; }

// Turns the scores of num_rows rows into weights; masks [num_rows]. Updates the states except their sums.
void softmax(const Scratch& s, const std::uint16_t* const* masks, int num_rows, float* states, int value_size) {
  const int state = state_floats(value_size);
  for (int row = 0; row < num_rows; ++row) {
    float* scores = s.scores + row * block_cells;
    Lanes top = broadcast(minus_infinity);
    for (int cell = 0; cell < block_cells; cell += lanes) {
      Lanes x = load(scores + cell);
      if (masks[row] != nullptr) store(scores + cell, x = add(x, load_f16(masks[row] + cell)));
      top = maximum(top, x);
    }
    float& so_far = maximum_in(states + row * state, value_size);
    const float block = largest_of(top), larger = block > so_far ? block : so_far;
    s.factors[row] = so_far - larger;
    so_far = larger;
  }
  for (int row = 0; row < num_rows; row += lanes) store(s.factors + row, exp_not_positive(load(s.factors + row)));
  for (int row = 0; row < num_rows; ++row) {
    float* scores = s.scores + row * block_cells;
    const Lanes top = broadcast(-maximum_in(states + row * state, value_size));
    Lanes sum = broadcast(0.0f);
    for (int cell = 0; cell < block_cells; cell += lanes) {
      const Lanes weights = exp_not_positive(add(load(scores + cell), top));
      store(scores + cell, weights);
      sum = add(sum, weights);
    }
    float& total = total_in(states + row * state, value_size);
    total = __builtin_fmaf(total, s.factors[row], sum_of(sum));
  }
}

bool all_hidden(const std::uint16_t* mask) {
  for (int cell = 0; cell < block_cells; cell += 4) {
    std::uint64_t four;
    __builtin_memcpy(&four, mask + cell, sizeof four);
    if (four != 0xFC00FC00FC00FC00u) return false;  // -inf
  }
  return true;
}

const float* query_of(const Problem& p, std::int64_t head, std::int64_t row) {
  return reinterpret_cast<const float*>(p.queries + row / p.group * p.query_stride +
                                        (head * p.group + row % p.group) * p.query_head_stride);
}

void scale_queries(const Problem& p, std::int64_t head, std::int64_t begin, std::int64_t end, float* out) {
  for (std::int64_t row = begin; row < end; ++row, out += p.head_size) {
    const float* query = query_of(p, head, row);
    for (int d = 0; d < p.head_size; d += lanes) store(out + d, multiply(load(query + d), broadcast(p.scale)));
  }
}

void clear_states(int value_size, std::int64_t num_rows, float* states) {
  for (; num_rows > 0; --num_rows, states += state_floats(value_size)) {
    for (int d = 0; d <= value_size; d += lanes) store(states + d, broadcast(0.0f));
    maximum_in(states, value_size) = minus_infinity;
  }
}

// Rows of a head for which a block of cells is not all masked.
struct Run {
  int begin, end;
  const std::uint16_t* const* masks;
  float* states;
};

// Calls begin_block(keys, values) for each block of each head that a row sees, then add_run(head, keys, values, run)
// for its runs.
template <CacheType type, class BeginBlock, class AddRun>
void read_blocks(const Problem& p, const Rows& rows, std::int64_t cell, std::int64_t end_cell, float* states,
                 std::int64_t head_states, BeginBlock begin_block, AddRun add_run) {
  const int num_rows = static_cast<int>(rows.end - rows.begin);
  for (; cell < end_cell; cell += block_cells) {
    const std::uint16_t* masks[max_rows];
    bool hidden[max_rows];
    for (int row = 0; row < num_rows; ++row) {
      const std::int64_t query = (rows.begin + row) / p.group;
      masks[row] = p.mask == nullptr ? nullptr : halves(p.mask + query * p.mask_stride) + cell;
      hidden[row] =
          row > 0 && masks[row] == masks[row - 1] ? hidden[row - 1] : p.mask != nullptr && all_hidden(masks[row]);
    }
    // This may lie beyond the last block, which is harmless.
    Prefetch next_keys(p.keys + rows.head_begin * p.key_head_stride + (cell + block_cells) * p.key_stride,
                       (rows.head_end - rows.head_begin) * p.key_head_stride, p.key_stride);
    Prefetch next_values(p.values + rows.head_begin * p.value_head_stride + (cell + block_cells) * p.value_stride,
                         (rows.head_end - rows.head_begin) * p.value_head_stride, p.value_stride);
    for (std::int64_t head = rows.head_begin; head < rows.head_end; ++head) {
      const Cells<type> keys{p.keys + head * p.key_head_stride + cell * p.key_stride, p.key_stride, p.head_size,
                             &next_keys};
      const Cells<type> values{p.values + head * p.value_head_stride + cell * p.value_stride, p.value_stride,
                               p.value_size, &next_values};
      float* head_rows = states + (head - rows.head_begin) * head_states;
      bool has_begun = false;
      for (int row = 0, end = 0; row < num_rows; row = end + 1) {
        for (end = row; end < num_rows && !hidden[end];) ++end;
        if (end == row) continue;
        if (!has_begun) begin_block(keys, values);
        has_begun = true;
        add_run(head, keys, values, Run{row, end, masks + row, head_rows + row * state_floats(p.value_size)});
      }
    }
  }
}

// Adds the weighted values of one tile's rows.
template <CacheType type>
void add_directly(const Scratch& s, const Cells<type>& values, int row, int end, float* states) {
  const int state = state_floats(values.size);
  with_rows<full_tile>(end - row, [&](auto count) {
    sum_directly<decltype(count)::value>(s.scores + row * block_cells, s.factors + row, values, states + row * state,
                                         state);
  });
}

template <CacheType type>
void read_cells(const Problem& p, const Rows& rows, std::int64_t cell, std::int64_t end_cell, float* states,
                std::int64_t head_states, const Scratch& s) {
  const int state = state_floats(p.value_size);
  bool is_converted = false;
  const auto begin_block = [&](const Cells<type>&, const Cells<type>&) { is_converted = false; };
  const auto add_run = [&](std::int64_t head, const Cells<type>& keys, const Cells<type>& values, const Run& run) {
    const int count = run.end - run.begin;
    scale_queries(p, head, rows.begin + run.begin, rows.begin + run.end, s.queries);
    if (count <= full_tile) {
      with_rows<full_tile>(
          count, [&](auto constant) { score_directly<decltype(constant)::value>(s.queries, keys, s.scores); });
      softmax(s, run.masks, count, run.states, p.value_size);
      add_directly(s, values, 0, count, run.states);
      return;
    }
    if (!is_converted) {
      keys.convert_keys(s.keys);
      values.convert_values(s.values);
      is_converted = true;
    }
    Product{s.queries, p.head_size, s.keys, p.head_size, s.scores, block_cells, nullptr, keys.next}.run(
        count, block_cells / lanes);
    softmax(s, run.masks, count, run.states, p.value_size);
    Product{s.scores, block_cells, s.values, block_cells, run.states, state, s.factors, values.next}.run(
        count, p.value_size / lanes);
  };
  read_blocks<type>(p, rows, cell, end_cell, states, head_states, begin_block, add_run);
}

void merge(int value_size, std::int64_t num_rows, float* states, const float* later) {
  for (; num_rows > 0; --num_rows, states += state_floats(value_size), later += state_floats(value_size)) {
    const float first = states[value_size], second = later[value_size];
    if (second == minus_infinity) continue;  // all cells of that chunk are masked
    const float top = second > first ? second : first;
    const Lanes factor = exp_not_positive(broadcast(first - top)),
                factor_later = exp_not_positive(broadcast(second - top));
    // The last sixteen hold the total.
    for (int d = 0; d <= value_size; d += lanes) {
      store(states + d, fused(load(later + d), factor_later, multiply(load(states + d), factor)));
    }
    states[value_size] = top;
  }
}

void finish(const Problem& p, std::int64_t head, std::int64_t row_begin, std::int64_t row_end, const float* states) {
  for (std::int64_t r = row_begin; r < row_end; ++r, states += state_floats(p.value_size)) {
    float* out = reinterpret_cast<float*>(p.out + r / p.group * p.out_stride +
                                          (head * p.group + r % p.group) * p.out_head_stride);
    const float total = states[p.value_size + 1];
    const Lanes inverse = broadcast(total == 0.0f ? 0.0f : 1.0f / total);
    for (int d = 0; d < p.value_size; d += lanes) store(out + d, multiply(load(states + d), inverse));
  }
}
