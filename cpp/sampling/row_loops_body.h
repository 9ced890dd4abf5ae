// The loops of row_loops.h in plain C++, for any instruction set; included inside an anonymous namespace by one file
// per set. Sums are kept in sixteen lanes, so that compilers vectorise them without reordering.

constexpr int lanes = 16;

// Whether any logit of a block is above the floor, or NaN.
template <class Logit>
inline bool any_above(const Logit* logits, Logit floor) {
  int above = 0;
  for (int i = 0; i < logits_per_block; ++i) above |= !(logits[i] <= floor);
  return above != 0;
}

template <class Logit>
std::int32_t next_block_above(const Logit* logits, std::int32_t begin, int size, Logit floor) noexcept {
  while (begin + logits_per_block <= size && !any_above(logits + begin, floor)) begin += logits_per_block;
  return begin;
}

template <class Logit>
void maxima(const Logit* logits, int depth, double* out, std::size_t count) noexcept {
  for (std::size_t first = 0; first < count; first += maxima_lanes, logits += maxima_lanes * depth) {
    Logit highest[maxima_lanes];
    for (Logit& logit : highest) logit = static_cast<Logit>(-__builtin_inf());
    for (int row = 0; row < depth; ++row) {
      for (int lane = 0; lane < maxima_lanes; ++lane) {
        const Logit logit = logits[row * maxima_lanes + lane];
        highest[lane] = logit > highest[lane] ? logit : highest[lane];
      }
    }
    for (int lane = 0; lane < maxima_lanes; ++lane) out[first + idx(lane)] = static_cast<double>(highest[lane]);
  }
}

template <class Logit>
double mass(const Logit* logits, int size, double max_logit) noexcept {
  double sums[lanes] = {}, total = 0.0;
  int i = 0;
  for (; i + lanes <= size; i += lanes) {
    for (int lane = 0; lane < lanes; ++lane)
      sums[lane] += exp_not_positive(static_cast<double>(logits[i + lane]) - max_logit);
  }
  for (; i < size; ++i) total += exp_not_positive(static_cast<double>(logits[i]) - max_logit);
  for (const double sum : sums) total += sum;
  return total;
}

double exponentials(double* weights, std::size_t count) noexcept {
  double sums[lanes] = {}, total = 0.0;
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane)
      sums[lane] += weights[i + lane] = exp_not_positive(weights[i + lane]);
  }
  for (; i < count; ++i) total += weights[i] = exp_not_positive(weights[i]);
  for (const double sum : sums) total += sum;
  return total;
}

void divide(double* weights, std::size_t count, double total) noexcept {
  for (std::size_t i = 0; i < count; ++i) weights[i] /= total;
}

float maximum(const float* logits, int size) noexcept {
  float maxima_of_lanes[lanes], max = logits[0];
  for (float& m : maxima_of_lanes) m = logits[0];
  int i = 0;
  for (; i + lanes <= size; i += lanes) {
    for (int lane = 0; lane < lanes; ++lane) {
      maxima_of_lanes[lane] = logits[i + lane] > maxima_of_lanes[lane] ? logits[i + lane] : maxima_of_lanes[lane];
    }
  }
  for (; i < size; ++i) max = logits[i] > max ? logits[i] : max;
  for (const float m : maxima_of_lanes) max = m > max ? m : max;
  return max;
}

// A float sum has at most 64 terms before it is added to the double.
double rough_mass(const float* logits, int size, float max) noexcept {
  constexpr int chunk = lanes * 64;
  double total = 0.0;
  for (int start = 0; start < size; start += chunk) {
    const int end = size < start + chunk ? size : start + chunk;
    float sums[lanes] = {};
    int i = start;
    for (; i + lanes <= end; i += lanes) {
      for (int lane = 0; lane < lanes; ++lane) sums[lane] += exp_not_positive(logits[i + lane] - max);
    }
    for (; i < end; ++i) total += static_cast<double>(exp_not_positive(logits[i] - max));
    for (const float sum : sums) total += static_cast<double>(sum);
  }
  return total;
}

constexpr LogitLoops<float> f32 = {next_block_above<float>, maxima<float>, mass<float>};
constexpr LogitLoops<double> f64 = {next_block_above<double>, maxima<double>, mass<double>};
