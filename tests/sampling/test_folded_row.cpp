// What FoldedRow finds against a plain search of the row.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/index.h"
#include "check.h"
#include "sampling/folded_row.h"

using specdec::idx;
using specdec::Token;
using namespace specdec::sampling;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// From a row without one whole part to rows of several thousand maxima.
constexpr int sizes[] = {1, 2, 255, 256, 257, 1000, 4095, 4096, 4097, 50000};

// values: how many different logits there are; few of them make ties.
template <class Logit>
std::vector<Logit> random_row(int size, int values) {
  std::mt19937 random(static_cast<unsigned>(size + values));
  std::vector<Logit> row(idx(size));
  for (Logit& logit : row) logit = static_cast<Logit>(static_cast<int>(random() % static_cast<unsigned>(values))) / 8;
  for (std::size_t i = 3; i < row.size(); i += 17) row[i] = -std::numeric_limits<Logit>::infinity();
  return row;
}

template <class Logit>
void check_row(const std::vector<Logit>& row, int size) {
  std::vector<double> maxima, scratch;
  const FoldedRow<Logit> folded(row.data(), size, maxima);
  const auto highest = std::max_element(row.begin(), row.end());  // the first of equal ones
  CHECK(folded.argmax() == highest - row.begin());

  const auto max = static_cast<double>(*highest);
  for (const double floor : {-infinity, max - 2.0, max - 0.01, max, max + 1.0}) {
    std::vector<Token> above, expected;
    folded.visit_above(floor, [&, floor](double logit, Token token) {
      CHECK(logit == static_cast<double>(row[idx(token)]));
      above.push_back(token);
      return floor;
    });
    for (Token token = 0; token < size; ++token) {
      if (static_cast<double>(row[idx(token)]) > floor) expected.push_back(token);
    }
    CHECK(above == expected);
  }

  for (const int k : {1, 2, 40, 1000}) {
    if (k > size) continue;
    const double floor = folded.floor_of_best(idx(k), scratch);
    const auto above =
        std::count_if(row.begin(), row.end(), [=](Logit logit) { return static_cast<double>(logit) > floor; });
    const auto finite = std::count_if(row.begin(), row.end(), [](Logit logit) { return std::isfinite(logit); });
    CHECK(above >= std::min<std::ptrdiff_t>(k, finite));
  }
}

template <class Logit>
void check_rows() {
  for (const int size : sizes) {
    for (const int values : {1, 5, 1 << 20}) check_row(random_row<Logit>(size, values), size);
  }
}

template <class Logit>
void check_bad(Logit bad, const std::string& name) {
  for (const int size : sizes) {
    for (const int place : {0, size / 2, size - 1}) {
      std::vector<Logit> row = random_row<Logit>(size, 100);
      row[idx(place)] = bad;
      std::vector<double> maxima;
      CHECK_THROWS(FoldedRow<Logit>(row.data(), size, maxima), std::invalid_argument,
                   "logits contain " + name + " (first at id " + std::to_string(place) + ")");
    }
  }
}

}  // namespace

TEST(against_a_plain_search) {
  check_rows<float>();
  check_rows<double>();
}

TEST(a_long_row_has_few_logits_above_the_floor_of_its_best) {
  std::vector<float> row(152064);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& logit : row) logit = normal(random);
  std::vector<double> maxima, scratch;
  const double floor = FoldedRow<float>(row.data(), 152064, maxima).floor_of_best(40, scratch);
  const auto above =
      std::count_if(row.begin(), row.end(), [=](float logit) { return static_cast<double>(logit) > floor; });
  CHECK(above >= 40 && above < 80);
}

TEST(the_visitor_raises_the_floor) {
  const std::vector<float> row = random_row<float>(5000, 1 << 20);
  std::vector<double> maxima;
  double last = -infinity;
  FoldedRow<float>(row.data(), 5000, maxima).visit_above(last, [&](double logit, Token) {
    CHECK(logit > last);
    return last = logit;
  });
  CHECK(last == static_cast<double>(*std::max_element(row.begin(), row.end())));
}

TEST(bad_logits_are_named) {
  check_bad(std::numeric_limits<float>::quiet_NaN(), "NaN");
  check_bad(std::numeric_limits<double>::quiet_NaN(), "NaN");
  check_bad(std::numeric_limits<float>::infinity(), "+inf");
  check_bad(std::numeric_limits<double>::infinity(), "+inf");
}

TEST(a_row_of_nothing_has_no_argmax) {
  for (const int size : {0, 1, 256, 1000}) {
    const std::vector<float> row(idx(size), -std::numeric_limits<float>::infinity());
    std::vector<double> maxima;
    const FoldedRow<float> folded(row.data(), size, maxima);
    CHECK_THROWS(folded.argmax(), NoTokenLeft, "no finite logit");
  }
}

TEST_MAIN()
