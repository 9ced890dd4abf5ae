// Ranges of arguments, and the errors about values outside them.
#include <limits>

#include "base/argument.h"
#include "check.h"

using namespace specdec;

TEST(ranges_know_their_ends) {
  const Range whole = whole_numbers(-1, 63);
  CHECK(whole.contains(-1) && whole.contains(0) && whole.contains(63));
  CHECK(!whole.contains(-2) && !whole.contains(64) && !whole.contains(0.5));
  CHECK(numbers(0.0, 1.0).contains(0.0) && numbers(0.0, 1.0).contains(1.0) && !numbers(0.0, 1.0).contains(1.0000001));
  CHECK(!numbers_above(0.0, 1.0).contains(0.0) && numbers_above(0.0, 1.0).contains(1e-300));
}

TEST(no_range_has_what_is_not_finite) {
  for (const Range& range : {Range(), whole_numbers(0, 1), numbers_from(0.0), numbers(0.0, 1.0)}) {
    CHECK(!range.contains(std::numeric_limits<double>::quiet_NaN()));
    CHECK(!range.contains(std::numeric_limits<double>::infinity()));
    CHECK(!range.contains(-std::numeric_limits<double>::infinity()));
  }
}

TEST(ranges_describe_themselves) {
  CHECK(whole_numbers(0, 63).text() == "a whole number from 0 to 63");
  CHECK(whole_numbers(0, 2147483647, "0: off").text() == "a whole number from 0 to 2147483647 (0: off)");
  CHECK(numbers_above(0.0, 1.0).text() == "a number above 0 and at most 1");
  CHECK(numbers(0.0, 0.5).text() == "a number of at least 0 and at most 0.5");
  CHECK(numbers_from(0.0).text() == "a finite number of at least 0");
  CHECK(Range().text() == "a finite number");
}

TEST(errors_name_the_argument_its_value_and_the_range) {
  check_range("k", 63, whole_numbers(0, 63));
  CHECK_THROWS(check_range("k", 64, whole_numbers(0, 63)), WrongValue,
               "k is 64; it must be a whole number from 0 to 63");
  CHECK_THROWS(check_range("p", 1e-300, numbers(1e-6, 1.0)), WrongValue,
               "p is 1e-300; it must be a number of at least 1e-06");
  try {
    check_range("k", 64, whole_numbers(0, 63));
  } catch (const WrongValue& error) {
    CHECK(error.name() == "k");
    CHECK(error.requirement() == "a whole number from 0 to 63");
  }
}

TEST_MAIN()
