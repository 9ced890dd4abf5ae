// Attention over a Q8_0 cache in integers, over the sixteen lanes of attention_kernel.h; included by one file per
// instruction set, which defines what that file needs and
//   Ints (sixteen int32; also as sixteen quads of bytes), load_quads (64 bytes), to_floats,
//   store_rounded (32 floats to the nearest integers, even ones if halfway, as bytes; the floats are within -127 ..
//   127), transpose_keys: 32 bytes of each of sixteen cells to eight times sixteen quads, interleave_values: 32 bytes
//   of each of four cells to quads that hold one dimension of the four: two times sixteen, score_start(n): an
//   accumulator for a block of query numbers, given -128 times their sum, score_dot(accumulator, keys, query) and
//   value_dot(accumulator, values, weights), which add the products of sixteen quads with one,
//   quad_rows, quad_strips(rows): tiles that fit the registers.
//
// The arithmetic, for each head, row and block of 64 cells:
// - q, the row's query times the problem's scale, is rounded to int8 per 32 numbers: the scale is the largest magnitude
//   divided by 127, and the numbers are multiplied by 127 / that magnitude. Numbers all below 1e-30 become 0. A block
//   with a number that is not finite gets the scale NaN.
// - score = fma(dot product of 32 int8, query's scale * key's scale, score), over the blocks of 32 in ascending order.
// - softmax as in F32.
// - Values, per 32 dimensions: u = weight * value's scale is rounded to 0 .. 127 in the same way, one scale for the 64
//   cells. So cells with large weights and tiny values, as attention sinks have, keep their accuracy.
// - sum = fma(dot product of the 64 cells, scale of u, sum * factor).
// Value scales that no quantizer writes (negative, infinite or NaN) have no u: their block of cells is added in F32.

#include "attention/attention_kernel.h"

constexpr int numbers = 32;         // of a Q8_0 block
constexpr float smallest = 1e-30f;  // has a finite 127 / smallest

// The inverse scale of values or a query; 0 for a block of zeros.
inline float inverse_of(float largest) { return largest >= smallest ? 127.0f / largest : 0.0f; }
inline float scale_of(float largest) { return largest >= smallest ? largest / 127.0f : 0.0f; }

inline Lanes magnitude(Lanes x) { return maximum(x, multiply(x, broadcast(-1.0f))); }

// One row's query in int8.
struct RoundedQueries {
  std::int8_t* bytes;    // [head_size]
  float* scales;         // [head_size / 32]
  std::int32_t* starts;  // [head_size / 32], -128 times the sum of the bytes

  RoundedQueries row(std::int64_t row, int head_size) const {
    const std::int64_t blocks = head_size / numbers;
    return {bytes + row * head_size, scales + row * blocks, starts + row * blocks};
  }

  void round(const float* query, float factor, int head_size) const {
    for (int b = 0; b < head_size / numbers; ++b) {
      const Lanes first = multiply(load(query + b * numbers), broadcast(factor));
      const Lanes second = multiply(load(query + b * numbers + lanes), broadcast(factor));
      const float largest = largest_of(maximum(magnitude(first), magnitude(second)));
      const float nan_unless_finite = sum_of(add(multiply(first, broadcast(0.0f)), multiply(second, broadcast(0.0f))));
      const Lanes inverse = broadcast(inverse_of(largest));
      store_rounded(bytes + b * numbers, multiply(first, inverse), multiply(second, inverse));
      scales[b] = scale_of(largest) + nan_unless_finite;
    }
    for (int b = 0; b < head_size / numbers; ++b) {  // in a second loop: bytes that were just stored are slow to load
      std::int32_t sum = 0;
      for (int i = 0; i < numbers; ++i) sum += bytes[b * numbers + i];
      starts[b] = -128 * sum;
    }
  }
};

// Layout of a call's memory behind that of Scratch; scratch_floats gives its size.
struct QuadScratch {
  QuadScratch(float* memory, int head_size, int value_size) {
    const int key_blocks = head_size / numbers, value_blocks = value_size / numbers;
    const auto take = [&memory](int floats) {
      float* taken = memory;
      memory += floats;
      return taken;
    };
    keys = reinterpret_cast<char*>(take(block_cells * head_size / 4));
    values = reinterpret_cast<char*>(take(block_cells * value_size / 4));
    weights = reinterpret_cast<std::int8_t*>(take(max_rows * value_blocks * block_cells / 4));
    queries.bytes = reinterpret_cast<std::int8_t*>(take(rounded_rows * head_size / 4));
    queries.starts = reinterpret_cast<std::int32_t*>(take(rounded_rows * key_blocks));
    queries.scales = take(rounded_rows * key_blocks);
    key_scales = take(key_blocks * block_cells);
    value_scales = take(value_blocks * block_cells);
    weight_scales = take(max_rows * value_blocks);
    inverses = take(max_rows * value_blocks);
  }
  char* keys;                        // [strip of cells][quad of dimensions][lane] quads
  char* values;                      // [strip of dimensions][quad of cells][lane] quads
  std::int8_t* weights;              // [row][value block][cell]
  RoundedQueries queries;            // of all heads read together
  float *key_scales, *value_scales;  // [block of numbers][cell]
  float *weight_scales, *inverses;   // [row][value block]
};

constexpr int quad_bytes = 4 * lanes;  // of sixteen quads

void load_scales(const Cells<CacheType::q8_0>& cells, float* scales) {
  for (int b = 0; b < cells.size / numbers; ++b) {
    for (int cell = 0; cell < block_cells; cell += lanes, scales += lanes) {
      store(scales, load_f16_column(cells.row + cell * cells.stride + b * 34, cells.stride));
    }
  }
}

void load_keys(const Cells<CacheType::q8_0>& cells, char* to) {
  for (int cell = 0; cell < block_cells; cell += lanes) {
    const char* block = cells.row + cell * cells.stride + 2;
    for (int b = 0; b < cells.size / numbers; ++b, block += 34, to += numbers / 4 * quad_bytes) {
      transpose_keys(block, cells.stride, to);
    }
  }
}

void load_values(const Cells<CacheType::q8_0>& cells, char* to) {
  constexpr int strip_bytes = block_cells * lanes;
  for (int cell = 0; cell < block_cells; cell += 4, to += quad_bytes) {
    for (int b = 0; b < cells.size / numbers; ++b) {
      char* strips = to + 2 * b * strip_bytes;
      interleave_values(cells.row + cell * cells.stride + b * 34 + 2, cells.stride, strips, strips + strip_bytes);
    }
  }
}

// Whether a quantizer could have written all of them. Infinity times zero is NaN, and then `maximum` keeps its second
// operand.
bool are_usual(const float* scales, int count) {
  Lanes nan_unless_finite = broadcast(0.0f), largest_negative = broadcast(0.0f);
  for (int i = 0; i < count; i += lanes) {
    const Lanes x = load(scales + i);
    nan_unless_finite = fused(x, broadcast(0.0f), nan_unless_finite);
    largest_negative = maximum(multiply(x, broadcast(-1.0f)), largest_negative);
  }
  return sum_of(nan_unless_finite) == 0.0f && largest_of(largest_negative) == 0.0f;
}

// Scores of the rows of one head: scores[row][cell].
struct QuadScores {
  RoundedQueries queries;
  const QuadScratch& s;
  Prefetch* next;
  int head_size;
  float* scores;

  template <int rows, int strips>
  void tile(int row, int strip) const {
    const int blocks = head_size / numbers, strip_bytes = head_size / 4 * quad_bytes;
    const RoundedQueries q = queries.row(row, head_size);
    const char* keys = s.keys + strip * strip_bytes;
    float* to = scores + row * block_cells + strip * lanes;
    for (int b = 0; b < blocks; ++b) {
      Ints dots[rows][strips];
      for (int r = 0; r < rows; ++r) {
        for (int i = 0; i < strips; ++i) dots[r][i] = score_start(q.starts + r * blocks + b);
      }
      for (int number = 0; number < numbers; number += 4, keys += quad_bytes) {
        Ints quads[strips];
        for (int i = 0; i < strips; ++i) quads[i] = load_quads(keys + i * strip_bytes);
        if (row == 0) next->lines(strips);
        for (int r = 0; r < rows; ++r) {
          for (int i = 0; i < strips; ++i) {
            dots[r][i] = score_dot(dots[r][i], quads[i], q.bytes + r * head_size + b * numbers + number);
          }
        }
      }
      if (row == 0) next->lines(1);
      for (int i = 0; i < strips; ++i) {
        const Lanes key_scales = load(s.key_scales + b * block_cells + (strip + i) * lanes);
        for (int r = 0; r < rows; ++r) {
          float* const score = to + r * block_cells + i * lanes;
          const Lanes scale = multiply(key_scales, broadcast(q.scales[r * blocks + b]));
          const Lanes so_far = b == 0 ? broadcast(0.0f) : load(score);
          store(score, fused(to_floats(dots[r][i]), scale, so_far));
        }
      }
    }
  }

  template <int rows>
  void tiles(int row, int end) const {
    constexpr int strips = quad_strips(rows);
    for (int strip = 0; strip < block_cells / lanes; strip += strips) {
      for (int r = row; r + rows <= end; r += rows) tile<rows, strips>(r, strip);
    }
    if constexpr (rows > 1) tiles<rows / 2>(row + (end - row) / rows * rows, end);
  }
};

// The same for rows that fit one tile, without storing the transposed cells.
template <int rows>
void score_quads_directly(const RoundedQueries& q, const Cells<CacheType::q8_0>& cells, float* scores) {
  const int blocks = cells.size / numbers;
  for (int cell = 0; cell < block_cells; cell += lanes) {
    const char* block = cells.row + cell * cells.stride;
    Lanes sums[rows];
    for (int r = 0; r < rows; ++r) sums[r] = broadcast(0.0f);
    for (int b = 0; b < blocks; ++b, block += 34) {
      alignas(64) char keys[numbers / 4 * quad_bytes];
      transpose_keys(block + 2, cells.stride, keys);
      Ints dots[rows];
      for (int r = 0; r < rows; ++r) dots[r] = score_start(q.starts + r * blocks + b);
#pragma GCC unroll 8  // keys stay in registers
      for (int quad = 0; quad < numbers / 4; ++quad) {
        const Ints quads = load_quads(keys + quad * quad_bytes);
        cells.next->lines(1);
        for (int r = 0; r < rows; ++r) {
          dots[r] = score_dot(dots[r], quads, q.bytes + r * cells.size + b * numbers + 4 * quad);
        }
      }
      if (b % 2 == 0) cells.next->lines(1);
      const Lanes key_scales = load_f16_column(block, cells.stride);
      for (int r = 0; r < rows; ++r) {
        const Lanes scale = multiply(key_scales, broadcast(q.scales[r * blocks + b]));
        sums[r] = fused(to_floats(dots[r]), scale, sums[r]);
      }
    }
    for (int r = 0; r < rows; ++r) store(scores + r * block_cells + cell, sums[r]);
  }
}

// The largest of each. The AVX-512 file overloads it.
template <class Sixteen>
void largest_of_four(const Sixteen& a, const Sixteen& b, const Sixteen& c, const Sixteen& d, float* to) {
  to[0] = largest_of(a);
  to[1] = largest_of(b);
  to[2] = largest_of(c);
  to[3] = largest_of(d);
}

// Rounds weight * value's scale.
void round_weights(const QuadScratch& s, const float* weights, int num_rows, int value_size) {
  const int blocks = value_size / numbers;
  const auto u = [&](int row, int b, int cell) {
    return multiply(load(weights + row * block_cells + cell), load(s.value_scales + b * block_cells + cell));
  };
  const auto top = [&](int row, int b) __attribute__((always_inline)) {
    const Lanes low = maximum(u(row, b, 0), u(row, b, lanes));
    return maximum(low, maximum(u(row, b, 2 * lanes), u(row, b, 3 * lanes)));
  };
  for (int row = 0; row < num_rows; ++row) {
    float* to = s.weight_scales + row * blocks;
    int b = 0;
    for (; b + 4 <= blocks; b += 4) {
      largest_of_four(top(row, b), top(row, b + 1), top(row, b + 2), top(row, b + 3), to + b);
    }
    for (; b < blocks; ++b) to[b] = largest_of(top(row, b));
  }
  for (int i = 0; i < num_rows * blocks; ++i) {
    const float largest = s.weight_scales[i];
    s.inverses[i] = inverse_of(largest);
    s.weight_scales[i] = scale_of(largest);
  }
  for (int row = 0; row < num_rows; ++row) {
    for (int b = 0; b < blocks; ++b) {
      const Lanes inverse = broadcast(s.inverses[row * blocks + b]);
      std::int8_t* to = s.weights + (row * blocks + b) * block_cells;
      for (int cell = 0; cell < block_cells; cell += 2 * lanes) {
        store_rounded(to + cell, multiply(u(row, b, cell), inverse), multiply(u(row, b, cell + lanes), inverse));
      }
    }
  }
}

// Adds the block's weighted values to the rows' sums.
struct QuadSums {
  const QuadScratch& s;
  Prefetch* next;
  const float* factors;  // [rows]
  int value_size;
  float* states;

  template <int rows, int strips>
  void tile(int row, int strip) const {
    const int blocks = value_size / numbers, b = strip * lanes / numbers, state = state_floats(value_size);
    const char* values = s.values + strip * block_cells * lanes;
    const std::int8_t* weights = s.weights + (row * blocks + b) * block_cells;
    Ints dots[rows][strips];
    for (int r = 0; r < rows; ++r) {
      for (int i = 0; i < strips; ++i) dots[r][i] = Ints{};
    }
    for (int cell = 0; cell < block_cells; cell += 4, values += quad_bytes) {
      Ints quads[strips];
      for (int i = 0; i < strips; ++i) quads[i] = load_quads(values + i * block_cells * lanes);
      if (row == 0) next->lines(strips);
      for (int r = 0; r < rows; ++r) {
        for (int i = 0; i < strips; ++i) {
          dots[r][i] = value_dot(dots[r][i], quads[i], weights + r * blocks * block_cells + cell);
        }
      }
    }
    if (row == 0) next->lines(strips);
    for (int r = 0; r < rows; ++r) {
      const Lanes scale = broadcast(s.weight_scales[(row + r) * blocks + b]), factor = broadcast(factors[row + r]);
      for (int i = 0; i < strips; ++i) {
        float* sum = states + (row + r) * state + (strip + i) * lanes;
        store(sum, fused(to_floats(dots[r][i]), scale, multiply(load(sum), factor)));
      }
    }
  }

  template <int rows>
  void tiles(int row, int end) const {
    constexpr int strips = quad_strips(rows);
    for (int strip = 0; strip < value_size / lanes; strip += strips) {
      for (int r = row; r + rows <= end; r += rows) tile<rows, strips>(r, strip);
    }
    if constexpr (rows > 1) tiles<rows / 2>(row + (end - row) / rows * rows, end);
  }
};

// The same for rows that fit one tile.
template <int rows>
void sum_quads_directly(const QuadScratch& s, const Cells<CacheType::q8_0>& cells, const float* factors,
                        float* states) {
  const int blocks = cells.size / numbers, state = state_floats(cells.size);
  for (int b = 0; b < blocks; ++b) {
    Ints dots[rows][2];
    for (int r = 0; r < rows; ++r) dots[r][0] = dots[r][1] = Ints{};
    for (int cell = 0; cell < block_cells; cell += 4) {
      alignas(64) char values[2 * quad_bytes];
      interleave_values(cells.row + cell * cells.stride + b * 34 + 2, cells.stride, values, values + quad_bytes);
      const Ints first = load_quads(values), second = load_quads(values + quad_bytes);
      cells.next->lines(2);
      for (int r = 0; r < rows; ++r) {
        const std::int8_t* weights = s.weights + (r * blocks + b) * block_cells + cell;
        dots[r][0] = value_dot(dots[r][0], first, weights);
        dots[r][1] = value_dot(dots[r][1], second, weights);
      }
    }
    cells.next->lines(2);
    for (int r = 0; r < rows; ++r) {
      const Lanes scale = broadcast(s.weight_scales[r * blocks + b]), factor = broadcast(factors[r]);
      for (int i = 0; i < 2; ++i) {
        float* sum = states + r * state + b * numbers + i * lanes;
        store(sum, fused(to_floats(dots[r][i]), scale, multiply(load(sum), factor)));
      }
    }
  }
}

// Reads as many heads at a time as have room for their rounded queries.
void read_cells_in_integers(const Problem& p, const Rows& rows, std::int64_t cell, std::int64_t end_cell, float* states,
                            std::int64_t head_states, const Scratch& scratch, float* memory) {
  const QuadScratch s(memory, p.head_size, p.value_size);
  const int num_rows = static_cast<int>(rows.end - rows.begin);
  const std::int64_t most = rounded_rows / num_rows;
  for (Rows some = rows; some.head_begin < rows.head_end; some.head_begin = some.head_end) {
    some.head_end = some.head_begin + most < rows.head_end ? some.head_begin + most : rows.head_end;
    for (std::int64_t head = some.head_begin, to = 0; head < some.head_end; ++head) {
      for (std::int64_t row = rows.begin; row < rows.end; ++row, ++to) {
        s.queries.row(to, p.head_size).round(query_of(p, head, row), p.scale, p.head_size);
      }
    }
    const auto quads_of = [&](std::int64_t head) {
      return s.queries.row((head - some.head_begin) * num_rows, p.head_size);
    };
    bool has_usual_scales = true, is_loaded = false;
    const auto begin_block = [&](const Cells<CacheType::q8_0>&, const Cells<CacheType::q8_0>& values) {
      is_loaded = false;
      load_scales(values, s.value_scales);
      has_usual_scales = are_usual(s.value_scales, values.size / numbers * block_cells);
    };
    const auto add_run = [&](std::int64_t head, const Cells<CacheType::q8_0>& keys,
                             const Cells<CacheType::q8_0>& values, const Run& run) {
      const int count = run.end - run.begin;
      const RoundedQueries queries = quads_of(head).row(run.begin, p.head_size);
      const bool directly = count <= quad_rows;
      if (!directly && !is_loaded) {
        load_scales(keys, s.key_scales);
        load_keys(keys, s.keys);
        if (has_usual_scales) load_values(values, s.values);
        is_loaded = true;
      }
      if (directly) {
        with_rows<quad_rows>(count, [&](auto constant) {
          score_quads_directly<decltype(constant)::value>(queries, keys, scratch.scores);
        });
      } else {
        QuadScores{queries, s, keys.next, p.head_size, scratch.scores}.tiles<quad_rows>(0, count);
      }
      softmax(scratch, run.masks, count, run.states, p.value_size);
      if (!has_usual_scales) {
        for (int row = 0; row < count; row += full_tile) {
          add_directly(scratch, values, row, row + full_tile < count ? row + full_tile : count, run.states);
        }
        return;
      }
      round_weights(s, scratch.scores, count, p.value_size);
      if (directly) {
        with_rows<quad_rows>(count, [&](auto constant) {
          sum_quads_directly<decltype(constant)::value>(s, values, scratch.factors, run.states);
        });
      } else {
        QuadSums{s, values.next, scratch.factors, p.value_size, run.states}.tiles<quad_rows>(0, count);
      }
    };
    read_blocks<CacheType::q8_0>(p, some, cell, end_cell, states + (some.head_begin - rows.head_begin) * head_states,
                                 head_states, begin_block, add_run);
  }
}

void read(const Problem& p, const Rows& rows, const CellRange& cells, float* states, std::int64_t head_states,
          float* memory) {
  const Scratch s(memory, p.head_size, p.value_size);
  for (std::int64_t head = rows.head_begin; cells.begin % chunk_cells == 0 && head < rows.head_end; ++head) {
    clear_states(p.value_size, rows.end - rows.begin, states + (head - rows.head_begin) * head_states);
  }
  if (p.type == CacheType::f16) {
    read_cells<CacheType::f16>(p, rows, cells.begin, cells.end, states, head_states, s);
  } else if (p.in_floats) {
    read_cells<CacheType::q8_0>(p, rows, cells.begin, cells.end, states, head_states, s);
  } else {
    float* quads = memory + float_scratch_floats(p.head_size, p.value_size);
    read_cells_in_integers(p, rows, cells.begin, cells.end, states, head_states, s, quads);
  }
}
