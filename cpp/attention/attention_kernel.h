// The algorithm, written over sixteen lanes; included by one file per instruction set, which defines in an anonymous namespace
//   Lanes, load, store, broadcast, add, multiply, fused (a * b + c), maximum (the second operand if either is NaN),
//   largest_of, sum_of (over the lanes, folding halves), power_of_two_times (p * 2^n, n whole), transpose (16 x 16),
//   load_f16, load_i8 (sixteen halves, sixteen bytes),
//   full_tile (rows of the largest tile of `product`, a power of two) and tile_strips(rows): tiles that fit the registers.
// Everything here has internal linkage, so that no linker can share it between instruction sets.

constexpr float minus_infinity = -__builtin_inff();

// exp(x) for x <= 0, relative error below 2e-7, 0 below -87: 2^n * polynomial(r), x = n ln2 + r, |r| <= ln2 / 2. NaN stays NaN.
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

// Sixteen numbers of a row, from number d on; exact.
template <CacheType type>
inline Lanes load_cell(const char* row, int d) {
  if constexpr (type == CacheType::f16) return load_f16(halves(row) + d);
  const char* block = row + d / 32 * 34;
  return multiply(load_i8(reinterpret_cast<const std::int8_t*>(block + 2 + d % 32)), broadcast(half(block)));
}

// Cells that will be needed soon, fetched into the second cache level a few at a time while others are computed with: all at
// once would fill the processor's queue of misses and stall it.
struct Ahead {
  const char* row;
  std::int64_t stride;
  int bytes, cells;  // of a row; left to fetch

  void fetch_some() {
    for (int end = cells > 16 ? cells - 16 : 0; cells > end; --cells, row += stride) {
      for (int at = 0; at < bytes; at += 64) __builtin_prefetch(row + at, 0, 2);
    }
  }
};

constexpr int row_bytes(CacheType type, int size) { return type == CacheType::f16 ? 2 * size : size / 32 * 34; }

// keys[strip][d][lane]: strips of sixteen cells, transposed.
template <CacheType type>
void read_keys(const Problem& p, const char* cells, float* keys) {
  for (int cell = 0; cell < block_cells; cell += lanes) {
    const char* row = cells + cell * p.key_stride;
    for (int d = 0; d < p.head_size; d += lanes) {
      Lanes x[lanes];
      for (int i = 0; i < lanes; ++i) x[i] = load_cell<type>(row + i * p.key_stride, d);
      transpose(x);
      for (int i = 0; i < lanes; ++i) store(keys + cell * p.head_size + (d + i) * lanes, x[i]);
    }
  }
}

// values[strip][cell][lane]: strips of sixteen dimensions.
template <CacheType type>
void read_values(const Problem& p, const char* cells, float* values) {
  for (int cell = 0; cell < block_cells; ++cell) {
    const char* row = cells + cell * p.value_stride;
    for (int d = 0; d < p.value_size; d += lanes) store(values + d * block_cells + cell * lanes, load_cell<type>(row, d));
  }
}

// --- scores and weighted values ---------------------------------------------------------------------------------

// c[row][strip][lane] = c * factors[row] (or 0 without factors) + sum over i of a[row][i] * b[strip][i][lane], i ascending.
struct Product {
  const float* a;  // [rows], a_stride apart
  int a_stride;
  const float* b;  // [strips][depth][lanes]
  int depth;
  float* c;  // [rows], c_stride apart
  int c_stride;
  const float* factors;  // [rows]
  Ahead* ahead;

  template <int rows, int strips>
  void tile(int row, int strip) const {
    const float *a0 = a + row * a_stride, *b0 = b + strip * depth * lanes;
    float* c0 = c + row * c_stride + strip * lanes;
    Lanes sums[rows][strips];
    for (int r = 0; r < rows; ++r) {
      for (int s = 0; s < strips; ++s) {
        sums[r][s] = factors == nullptr ? broadcast(0.0f) : multiply(load(c0 + r * c_stride + s * lanes), broadcast(factors[row + r]));
      }
    }
    for (int i = 0; i < depth; ++i) {
      Lanes right[strips];
      for (int s = 0; s < strips; ++s) right[s] = load(b0 + (s * depth + i) * lanes);
      for (int r = 0; r < rows; ++r) {
        const Lanes left = broadcast(a0[r * a_stride + i]);
        for (int s = 0; s < strips; ++s) sums[r][s] = fused(left, right[s], sums[r][s]);
      }
    }
    for (int r = 0; r < rows; ++r) {
      for (int s = 0; s < strips; ++s) store(c0 + r * c_stride + s * lanes, sums[r][s]);
    }
  }

  // Strips outside, rows inside: the strips of a tile stay in the first cache level.
  template <int rows>
  void tiles(int row, int row_end, int num_strips) const {
    constexpr int strips = tile_strips(rows);
    int strip = 0;
    for (; strip + strips <= num_strips; strip += strips) {
      for (int r = row; r + rows <= row_end; r += rows) {
        ahead->fetch_some();
        tile<rows, strips>(r, strip);
      }
    }
    for (; strip < num_strips; ++strip) {
      for (int r = row; r + rows <= row_end; r += rows) tile<rows, 1>(r, strip);
    }
    if constexpr (rows > 1) tiles<rows / 2>(row + (row_end - row) / rows * rows, row_end, num_strips);
  }

  void run(int num_rows, int num_strips) const { tiles<full_tile>(0, num_rows, num_strips); }
};

// Where a call's memory goes; scratch_floats counts it.
struct Scratch {
  Scratch(float* memory, int head_size, int value_size) : keys(memory) {
    values = keys + block_cells * head_size;
    queries = values + block_cells * value_size;
    scores = queries + max_rows * head_size;
    factors = scores + max_rows * block_cells;
  }
  float *keys, *values;
  float* queries;  // [rows][head_size], scaled
  float* scores;   // [rows][block_cells], then the weights exp(score - maximum)
  float* factors;  // [rows] for what was summed under the old maximum
};

float& maximum_in(float* state, int value_size) { return state[value_size]; }
float& total_in(float* state, int value_size) { return state[value_size + 1]; }

// Scores of num_rows rows to weights; masks[row] as many. Updates the states but for their sums.
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

void scale_queries(const Problem& p, std::int64_t head, std::int64_t begin, std::int64_t end, float* out) {
  for (std::int64_t r = begin; r < end; ++r, out += p.head_size) {
    const char* query = p.queries + r / p.group * p.query_stride + (head * p.group + r % p.group) * p.query_head_stride;
    const Lanes scale = broadcast(p.scale);
    for (int d = 0; d < p.head_size; d += lanes) store(out + d, multiply(load(reinterpret_cast<const float*>(query) + d), scale));
  }
}

void clear_states(int value_size, std::int64_t num_rows, float* states) {
  for (; num_rows > 0; --num_rows, states += state_floats(value_size)) {
    for (int d = 0; d <= value_size; d += lanes) store(states + d, broadcast(0.0f));
    maximum_in(states, value_size) = minus_infinity;
  }
}

template <CacheType key_type, CacheType value_type>
void read_cells(const Problem& p, const Rows& rows, std::int64_t cell, std::int64_t end_cell, float* states, std::int64_t head_states, const Scratch& s) {
  const int state = state_floats(p.value_size), num_rows = static_cast<int>(rows.end - rows.begin);
  for (; cell < end_cell; cell += block_cells) {
    const std::uint16_t* masks[max_rows];
    bool hidden[max_rows];
    for (int row = 0; row < num_rows; ++row) {
      const std::int64_t query = (rows.begin + row) / p.group;
      masks[row] = p.mask == nullptr ? nullptr : halves(p.mask + query * p.mask_stride) + cell;
      hidden[row] = row > 0 && masks[row] == masks[row - 1] ? hidden[row - 1] : p.mask != nullptr && all_hidden(masks[row]);
    }
    const int cells_ahead = cell + block_cells < p.num_cells ? block_cells : 0;
    for (std::int64_t head = rows.head_begin; head < rows.head_end; ++head) {
      const char* keys = p.keys + head * p.key_head_stride + cell * p.key_stride;
      const char* values = p.values + head * p.value_head_stride + cell * p.value_stride;
      Ahead keys_ahead{keys + block_cells * p.key_stride, p.key_stride, row_bytes(key_type, p.head_size), cells_ahead};
      Ahead values_ahead{values + block_cells * p.value_stride, p.value_stride, row_bytes(value_type, p.value_size), cells_ahead};
      float* head_state = states + (head - rows.head_begin) * head_states;
      bool is_read = false;
      for (int row = 0, end = 0; row < num_rows; row = end + 1) {  // runs of rows that see something of the block
        for (end = row; end < num_rows && !hidden[end];) ++end;
        if (end == row) continue;
        if (!is_read) {
          read_keys<key_type>(p, keys, s.keys);
          read_values<value_type>(p, values, s.values);
          is_read = true;
        }
        scale_queries(p, head, rows.begin + row, rows.begin + end, s.queries);
        const Product scores{s.queries, p.head_size, s.keys, p.head_size, s.scores, block_cells, nullptr, &keys_ahead};
        scores.run(end - row, block_cells / lanes);
        softmax(s, masks + row, end - row, head_state + row * state, p.value_size);
        const Product sums{s.scores, block_cells, s.values, block_cells, head_state + row * state, state, s.factors, &values_ahead};
        sums.run(end - row, p.value_size / lanes);
      }
    }
  }
}

void read_chunk(const Problem& p, const Rows& rows, std::int64_t chunk, float* states, std::int64_t head_states, float* memory) {
  const Scratch s(memory, p.head_size, p.value_size);
  for (std::int64_t head = rows.head_begin; head < rows.head_end; ++head) {
    clear_states(p.value_size, rows.end - rows.begin, states + (head - rows.head_begin) * head_states);
  }
  const std::int64_t cell = chunk * chunk_cells, end = cell + chunk_cells < p.num_cells ? cell + chunk_cells : p.num_cells;
  constexpr CacheType f16 = CacheType::f16, q8_0 = CacheType::q8_0;
  if (p.key_type == f16) {
    if (p.value_type == f16) read_cells<f16, f16>(p, rows, cell, end, states, head_states, s);
    else read_cells<f16, q8_0>(p, rows, cell, end, states, head_states, s);
  } else {
    if (p.value_type == f16) read_cells<q8_0, f16>(p, rows, cell, end, states, head_states, s);
    else read_cells<q8_0, q8_0>(p, rows, cell, end, states, head_states, s);
  }
}

void merge(int value_size, std::int64_t num_rows, float* states, const float* later) {
  for (; num_rows > 0; --num_rows, states += state_floats(value_size), later += state_floats(value_size)) {
    const float first = states[value_size], second = later[value_size];
    if (second == minus_infinity) continue;  // nothing seen there
    const float top = second > first ? second : first;
    const Lanes factor = exp_not_positive(broadcast(first - top)), factor_later = exp_not_positive(broadcast(second - top));
    // The last sixteen hold the total.
    for (int d = 0; d <= value_size; d += lanes) {
      store(states + d, fused(load(later + d), factor_later, multiply(load(states + d), factor)));
    }
    states[value_size] = top;
  }
}

void finish(const Problem& p, std::int64_t head, std::int64_t row_begin, std::int64_t row_end, const float* states) {
  for (std::int64_t r = row_begin; r < row_end; ++r, states += state_floats(p.value_size)) {
    float* out = reinterpret_cast<float*>(p.out + r / p.group * p.out_stride + (head * p.group + r % p.group) * p.out_head_stride);
    const float total = states[p.value_size + 1];
    const Lanes inverse = broadcast(total == 0.0f ? 0.0f : 1.0f / total);
    for (int d = 0; d < p.value_size; d += lanes) store(out + d, multiply(load(states + d), inverse));
  }
}
