// A minimal test harness: TEST_MAIN runs the functions TEST(name) { CHECK(...); }. Exit codes: 0 passed, 1 failed
// (or no test at all), 77 skipped.
#pragma once

#include <cmath>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace check {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct Skip : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct Test {
  const char* name;
  void (*run)();
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}
struct Register {
  Register(const char* name, void (*run)()) { tests().push_back({name, run}); }
};

[[noreturn]] inline void fail(const char* file, int line, const std::string& what) {
  throw Failure(std::string(file) + ":" + std::to_string(line) + ": " + what);
}

// Runs every test of the executable; a test ends at its first failure, the others still run.
inline int run_all() {
  int failed = 0, skipped = 0, passed = 0;
  for (const Test& test : tests()) {
    try {
      test.run();
      ++passed;
      std::printf("ok      %s\n", test.name);
    } catch (const Skip& reason) {
      ++skipped;
      std::printf("skipped %s: %s\n", test.name, reason.what());
    } catch (const std::exception& error) {
      ++failed;
      std::printf("FAILED  %s: %s\n", test.name, error.what());
    }
  }
  if (tests().empty()) {
    std::printf("FAILED  there is no TEST in this program\n");
    return 1;
  }
  std::printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  if (failed > 0) return 1;
  return passed == 0 && skipped > 0 ? 77 : 0;
}

}  // namespace check

#define TEST(name)                                           \
  static void name();                                        \
  static const check::Register register_##name{#name, name}; \
  static void name()
#define CHECK(condition)                                           \
  do {                                                             \
    if (!(condition)) check::fail(__FILE__, __LINE__, #condition); \
  } while (false)
#define CHECK_NEAR(a, b, tolerance)                                                                                  \
  do {                                                                                                               \
    const double check_a = (a), check_b = (b);                                                                       \
    if (!(std::fabs(check_a - check_b) <= (tolerance)))                                                              \
      check::fail(__FILE__, __LINE__, #a " = " + std::to_string(check_a) + ", expected " + std::to_string(check_b)); \
  } while (false)
#define CHECK_THROWS(expression, type, text)                                                                       \
  do {                                                                                                             \
    std::string check_message = "(nothing thrown)";                                                                \
    try {                                                                                                          \
      (void)(expression);                                                                                          \
    } catch (const type& error) {                                                                                  \
      check_message = error.what();                                                                                \
    }                                                                                                              \
    if (check_message.find(text) == std::string::npos)                                                             \
      check::fail(__FILE__, __LINE__, #expression ": expected an error with \"" text "\", got: " + check_message); \
  } while (false)
#define TEST_MAIN() \
  int main() { return check::run_all(); }
