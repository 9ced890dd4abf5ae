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

// Uses vector extensions of gcc and clang that every CPU supports, since gcc 12 does not vectorise a loop over the
// lanes here. Rows come from memory or the last-level cache; the prefetch may point past the end.
template <class Logit>
bool maxima(const Logit* logits, int depth, double* out, std::size_t count) noexcept {
  typedef Logit Vector __attribute__((vector_size(16)));
  constexpr int logits_per_vector = sizeof(Vector) / sizeof(Logit), vectors = maxima_lanes / logits_per_vector;
  constexpr auto infinity = static_cast<Logit>(__builtin_inf());
  auto valid = Vector{} < infinity;
  for (std::size_t first = 0; first < count; first += maxima_lanes) {
    Vector highest[vectors];
    for (Vector& so_far : highest) so_far = Vector{} - infinity;
    for (int row = 0; row < depth; ++row) {
      __builtin_prefetch(logits + 512);
      for (Vector& so_far : highest) {
        Vector vector;
        __builtin_memcpy(&vector, logits, sizeof vector);
        logits += logits_per_vector;
        so_far = vector > so_far ? vector : so_far;
        valid &= vector < infinity;
      }
    }
    for (int lane = 0; lane < maxima_lanes; ++lane)
      out[first + idx(lane)] = static_cast<double>(highest[lane / logits_per_vector][lane % logits_per_vector]);
  }
  bool all_valid = true;
  for (int i = 0; i < logits_per_vector; ++i) all_valid = all_valid && valid[i] != 0;
  return all_valid;
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

template <class Logit>
Weights weights(const Logit* logits, int size, double max_logit, double temperature, double* out) noexcept {
  double sums[lanes] = {}, lowest[lanes];
  for (double& weight : lowest) weight = 1.0;
  Weights result{0.0, true};
  int i = 0;
  for (; i + lanes <= size; i += lanes) {
    for (int lane = 0; lane < lanes; ++lane) {
      const double weight = exp_not_positive((static_cast<double>(logits[i + lane]) - max_logit) / temperature);
      out[i + lane] = weight;
      sums[lane] += weight;
      lowest[lane] = weight < lowest[lane] ? weight : lowest[lane];
    }
  }
  for (; i < size; ++i) {
    result.total += out[i] = exp_not_positive((static_cast<double>(logits[i]) - max_logit) / temperature);
    result.all_positive = result.all_positive && out[i] > 0.0;
  }
  for (const double sum : sums) result.total += sum;
  for (const double weight : lowest) result.all_positive = result.all_positive && weight > 0.0;
  return result;
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
  const int depth = size / maxima_lanes;
  double of_lanes[maxima_lanes];
  maxima(logits, depth, of_lanes, maxima_lanes);
  auto max = static_cast<float>(of_lanes[0]);
  for (const double lane : of_lanes) max = static_cast<float>(lane) > max ? static_cast<float>(lane) : max;
  for (int i = depth * maxima_lanes; i < size; ++i) max = logits[i] > max ? logits[i] : max;
  return max;
}

// The row is read once: a chunk stays in the first-level cache between its maximum and its exponentials. A float sum
// has at most 64 terms before it is added to the double.
RoughMass rough_mass(const float* logits, int size) noexcept {
  constexpr int chunk = lanes * 64;
  RoughMass mass{-__builtin_inff(), 0.0};
  for (int start = 0; start < size; start += chunk) {
    const int end = size < start + chunk ? size : start + chunk;
    const float max = maximum(logits + start, end - start);
    if (max > mass.max) {
      mass.total *= exp_not_positive(static_cast<double>(mass.max) - static_cast<double>(max));
      mass.max = max;
    }
    if (!(mass.max > -__builtin_inff())) continue;
    float sums[lanes] = {};
    int i = start;
    for (; i + lanes <= end; i += lanes) {
      for (int lane = 0; lane < lanes; ++lane) sums[lane] += exp_not_positive(logits[i + lane] - mass.max);
    }
    for (; i < end; ++i) mass.total += static_cast<double>(exp_not_positive(logits[i] - mass.max));
    for (const float sum : sums) mass.total += static_cast<double>(sum);
  }
  return mass;
}

constexpr LogitLoops<float> f32 = {next_block_above<float>, maxima<float>, mass<float>, weights<float>};
constexpr LogitLoops<double> f64 = {next_block_above<double>, maxima<double>, mass<double>, weights<double>};
