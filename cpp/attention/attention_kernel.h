// The algorithm, written over sixteen lanes; included by one file per instruction set, which defines in an anonymous namespace
//   Lanes, load, store, broadcast, add, multiply, fused (a * b + c), maximum, power_of_two_times (p * 2^n, n whole),
//   load_f16 (sixteen halves), Count, and block_vectors: how many vectors of scores or dimensions fit the registers.
// Everything here has internal linkage, so that no linker can share it between instruction sets.

constexpr int tile_rows = 4;
constexpr float minus_infinity = -__builtin_inff();

// exp(x) for x <= 0, relative error below 2e-7, 0 below -87: 2^n * polynomial(r), x = n ln2 + r, |r| <= ln2 / 2.
inline Lanes exp_not_positive(Lanes x) {
  const Lanes clamped = maximum(x, broadcast(-87.0f));
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

inline float exp_of(float x) {
  float lane[lanes];
  store(lane, exp_not_positive(broadcast(x)));
  return lane[0];
}

struct Scratch {
  float* keys;     // [head_size][block_cells], transposed
  float* values;   // [block_cells][value_size]
  float* queries;  // [rows][head_size], scaled
  float* sums;     // [rows][value_size] of weighted values
  float* maxima;   // [rows] largest score so far
  float* totals;   // [rows] sum of weights so far
  float* scores;   // [tile_rows][block_cells]
};

Scratch divide(float* memory, int head_size, int value_size) {
  Scratch s;
  s.keys = memory;
  s.values = s.keys + block_cells * head_size;
  s.queries = s.values + block_cells * value_size;
  s.sums = s.queries + max_rows * head_size;
  s.scores = s.sums + max_rows * value_size;
  s.maxima = s.scores + tile_rows * block_cells;
  s.totals = s.maxima + max_rows;
  return s;
}

const std::uint16_t* halves(const char* base, std::int64_t offset) { return reinterpret_cast<const std::uint16_t*>(base + offset); }

void read_block(const Problem& p, std::int64_t first_cell, const Scratch& s) {
  for (int cell = 0; cell < block_cells; ++cell) {
    const std::uint16_t* key = halves(p.keys, (first_cell + cell) * p.key_stride);
    for (int d = 0; d < p.head_size; d += lanes) {
      float lane[lanes];
      store(lane, load_f16(key + d));
      for (int i = 0; i < lanes; ++i) s.keys[(d + i) * block_cells + cell] = lane[i];
    }
    const std::uint16_t* value = halves(p.values, (first_cell + cell) * p.value_stride);
    for (int d = 0; d < p.value_size; d += lanes) store(s.values + cell * p.value_size + d, load_f16(value + d));
  }
}

bool all_masked(const std::uint16_t* mask) {
  for (int cell = 0; cell < block_cells; ++cell) {
    if (mask[cell] != 0xFC00) return false;  // -inf
  }
  return true;
}

// scores[row][cell] = sum over d of query[row][d] * key[cell][d], for tile_rows rows.
void score(const float* queries, int head_size, const Scratch& s) {
  for (int first = 0; first < block_cells; first += lanes * block_vectors) {
    Lanes sums[tile_rows][block_vectors];
    for (int row = 0; row < tile_rows; ++row) {
      for (int v = 0; v < block_vectors; ++v) sums[row][v] = broadcast(0.0f);
    }
    for (int d = 0; d < head_size; ++d) {
      Lanes keys[block_vectors];
      for (int v = 0; v < block_vectors; ++v) keys[v] = load(s.keys + d * block_cells + first + v * lanes);
      for (int row = 0; row < tile_rows; ++row) {
        const Lanes query = broadcast(queries[row * head_size + d]);
        for (int v = 0; v < block_vectors; ++v) sums[row][v] = fused(query, keys[v], sums[row][v]);
      }
    }
    for (int row = 0; row < tile_rows; ++row) {
      for (int v = 0; v < block_vectors; ++v) store(s.scores + row * block_cells + first + v * lanes, sums[row][v]);
    }
  }
}

float largest(const float* scores) {
  Lanes m = load(scores);
  for (int cell = lanes; cell < block_cells; cell += lanes) m = maximum(m, load(scores + cell));
  float lane[lanes];
  store(lane, m);
  float result = lane[0];
  for (int i = 1; i < lanes; ++i) result = lane[i] > result ? lane[i] : result;
  return result;
}

// Turns a row's scores into weights exp(score - maximum); returns the factor for what was summed under the old maximum.
float softmax(float* scores, const std::uint16_t* mask, float& maximum_so_far, float& total) {
  if (mask != nullptr) {
    for (int cell = 0; cell < block_cells; cell += lanes) store(scores + cell, add(load(scores + cell), load_f16(mask + cell)));
  }
  const float block_max = largest(scores);
  if (block_max == minus_infinity) {  // all cells hidden
    for (int cell = 0; cell < block_cells; ++cell) scores[cell] = 0.0f;
    return 1.0f;
  }
  const float new_max = block_max > maximum_so_far ? block_max : maximum_so_far;
  const float factor = maximum_so_far == minus_infinity ? 0.0f : exp_of(maximum_so_far - new_max);
  Lanes sum = broadcast(0.0f);
  for (int cell = 0; cell < block_cells; cell += lanes) {
    const Lanes weights = exp_not_positive(add(load(scores + cell), broadcast(-new_max)));
    store(scores + cell, weights);
    sum = add(sum, weights);
  }
  float lane[lanes];
  store(lane, sum);
  for (int width = lanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
  }
  total = __builtin_fmaf(total, factor, lane[0]);
  maximum_so_far = new_max;
  return factor;
}

// sums[row][d] = factor[row] * sums[row][d] + sum over cells of weight[row][cell] * value[cell][d]
void accumulate(float* sums, const float* factors, int value_size, const Scratch& s) {
  const int step = value_size % (lanes * block_vectors) == 0 ? block_vectors : 1;
  const auto dimensions = [&](int d, auto vectors) {
    constexpr int count = decltype(vectors)::value;
    Lanes out[tile_rows][count];
    for (int row = 0; row < tile_rows; ++row) {
      for (int v = 0; v < count; ++v) out[row][v] = multiply(load(sums + row * value_size + d + v * lanes), broadcast(factors[row]));
    }
    for (int cell = 0; cell < block_cells; ++cell) {
      Lanes values[count];
      for (int v = 0; v < count; ++v) values[v] = load(s.values + cell * value_size + d + v * lanes);
      for (int row = 0; row < tile_rows; ++row) {
        const Lanes weight = broadcast(s.scores[row * block_cells + cell]);
        for (int v = 0; v < count; ++v) out[row][v] = fused(weight, values[v], out[row][v]);
      }
    }
    for (int row = 0; row < tile_rows; ++row) {
      for (int v = 0; v < count; ++v) store(sums + row * value_size + d + v * lanes, out[row][v]);
    }
  };
  if (step == block_vectors) {
    for (int d = 0; d < value_size; d += lanes * block_vectors) dimensions(d, Count<block_vectors>());
  } else {
    for (int d = 0; d < value_size; d += lanes) dimensions(d, Count<1>());
  }
}

const std::uint16_t* mask_of(const Problem& p, std::int64_t row, std::int64_t first_cell) {
  return p.mask == nullptr ? nullptr : halves(p.mask, row / p.group * p.mask_stride) + first_cell;
}

void attend(const Problem& p, std::int64_t row_begin, std::int64_t row_end, float* memory) {
  const Scratch s = divide(memory, p.head_size, p.value_size);
  const int rows = static_cast<int>(row_end - row_begin);
  const int padded = (rows + tile_rows - 1) / tile_rows * tile_rows;  // rows that fill the last tile are computed in vain
  for (int row = 0; row < padded; ++row) {
    const std::int64_t r = row_begin + (row < rows ? row : 0);
    const float* query = reinterpret_cast<const float*>(p.queries + r / p.group * p.query_stride + r % p.group * p.query_head_stride);
    for (int d = 0; d < p.head_size; ++d) s.queries[row * p.head_size + d] = query[d] * p.scale;
    for (int d = 0; d < p.value_size; ++d) s.sums[row * p.value_size + d] = 0.0f;
    s.maxima[row] = minus_infinity;
    s.totals[row] = 0.0f;
  }
  for (std::int64_t first_cell = 0; first_cell < p.num_cells; first_cell += block_cells) {
    bool is_read = false;
    for (int tile = 0; tile < padded; tile += tile_rows) {
      const std::uint16_t* masks[tile_rows];
      bool hidden = true;
      for (int row = 0; row < tile_rows; ++row) {
        masks[row] = mask_of(p, row_begin + (tile + row < rows ? tile + row : 0), first_cell);
        if (tile + row < rows && (row == 0 || masks[row] != masks[row - 1])) hidden = hidden && masks[row] != nullptr && all_masked(masks[row]);
      }
      if (hidden) continue;
      if (!is_read) read_block(p, first_cell, s);
      is_read = true;
      score(s.queries + tile * p.head_size, p.head_size, s);
      float factors[tile_rows];
      for (int row = 0; row < tile_rows; ++row) {
        factors[row] = softmax(s.scores + row * block_cells, masks[row], s.maxima[tile + row], s.totals[tile + row]);
      }
      accumulate(s.sums + tile * p.value_size, factors, p.value_size, s);
    }
  }
  for (int row = 0; row < rows; ++row) {
    const std::int64_t r = row_begin + row;
    float* out = reinterpret_cast<float*>(p.out + r / p.group * p.out_stride + r % p.group * p.out_head_stride);
    const float inverse = s.totals[row] > 0.0f ? 1.0f / s.totals[row] : 0.0f;
    for (int d = 0; d < p.value_size; ++d) out[d] = s.sums[row * p.value_size + d] * inverse;
  }
}
