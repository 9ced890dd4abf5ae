// The loops of calibration_loops.h in plain C++, for any instruction set; included inside an anonymous namespace by one
// file per set.

#define SPECDEC_INLINE inline __attribute__((always_inline))

// A vector of eight floats, and such a vector anywhere in memory; the compiler uses as many registers as it needs.
typedef float Eight __attribute__((vector_size(8 * sizeof(float))));
typedef float EightAnywhere __attribute__((vector_size(8 * sizeof(float)), aligned(alignof(float)), may_alias));

// A tile of h is 4 rows by two panels of columns: as many sums as 16 registers of AVX2 hold.
void add_moments(const float* panels, std::int64_t n, std::int64_t k, std::int64_t row, float* h) noexcept {
  constexpr std::int64_t lanes = moment_lanes, rows = moment_rows, tile_panels = 2, tile_columns = tile_panels * lanes;
  const float* x = panels + row / lanes * n * lanes + row % lanes;
  for (std::int64_t column = 0; column < row + rows; column += tile_columns) {
    const float *left = panels + column * n, *right = left + n * lanes;
    Eight sums[rows][tile_panels] = {};
    for (std::int64_t t = 0; t < n; ++t) {
      const Eight a = *reinterpret_cast<const EightAnywhere*>(left + t * lanes),
                  b = *reinterpret_cast<const EightAnywhere*>(right + t * lanes);
      for (std::int64_t i = 0; i < rows; ++i) {
        sums[i][0] += a * x[t * lanes + i];
        sums[i][1] += b * x[t * lanes + i];
      }
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      EightAnywhere* to = reinterpret_cast<EightAnywhere*>(h + (row + i) * k + column);
      for (std::int64_t p = 0; p < tile_panels; ++p) to[p] += sums[i][p];
    }
  }
}

void eliminate(double* h, std::int64_t n, std::int64_t begin, std::int64_t end, std::int64_t r) noexcept {
  double* row = h + r * n;
  for (std::int64_t l = begin; l < end; l += 4) {
    const double *a = h + l * n, *b = a + n, *c = b + n, *d = c + n;
    const double fa = a[r] * a[l], fb = b[r] * b[l + 1], fc = c[r] * c[l + 2], fd = d[r] * d[l + 3];
    for (std::int64_t i = 0; i <= r; ++i) row[i] -= (fa * a[i] + fb * b[i]) + (fc * c[i] + fd * d[i]);
  }
}

// For `outputs` rows; x is read once for all of them.
template <int outputs>
SPECDEC_INLINE void accumulate_rows(const StridedMatrix& a, std::int64_t row, const Lanes* x, std::int64_t count,
                                    Lanes* sums) {
  constexpr int vectors = feedback_lanes / 8;
  EightAnywhere total[outputs][vectors];
  for (int r = 0; r < outputs; ++r) {
    for (int v = 0; v < vectors; ++v) total[r][v] = reinterpret_cast<const EightAnywhere*>(sums[row + r])[v];
  }
  for (std::int64_t i = 0; i < count; ++i) {
    for (int v = 0; v < vectors; ++v) {
      for (int r = 0; r < outputs; ++r) {
        total[r][v] +=
            reinterpret_cast<const EightAnywhere*>(x[i])[v] * a.start[(row + r) * a.row_stride + i * a.column_stride];
      }
    }
  }
  for (int r = 0; r < outputs; ++r) {
    for (int v = 0; v < vectors; ++v) reinterpret_cast<EightAnywhere*>(sums[row + r])[v] = total[r][v];
  }
}

void accumulate(const StridedMatrix& a, std::int64_t outputs, const Lanes* x, std::int64_t count,
                Lanes* sums) noexcept {
  std::int64_t row = 0;
  for (; row + 2 <= outputs; row += 2) accumulate_rows<2>(a, row, x, count, sums);
  for (; row < outputs; ++row) accumulate_rows<1>(a, row, x, count, sums);
}
