// Callbacks of libcurl that fail: nothing is thrown through its frames, and the caller gets what was thrown.

#include <cstdlib>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "check.h"
#include "platform/http.h"
#include "platform/library.h"

namespace faults {

int allocation = -1;  // counts down; the allocation that reaches 0 fails

}  // namespace faults

[[gnu::noinline]] void* operator new(std::size_t size) {
  bool fails = false;
  if (faults::allocation > 0) {
    --faults::allocation;
    fails = faults::allocation == 0;
  }
  void* const memory = fails ? nullptr : std::malloc(size > 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using namespace specdec;

const bool is_faked = setenv("SPECDEC_LIBCURL", FAKE_CURL, 1) == 0;

int num_returned() {
  static const auto returned = reinterpret_cast<int (*)()>(find_symbol(open_library(FAKE_CURL), "fake_curl_returned"));
  return returned();
}

HttpRequest request() {
  HttpRequest made;
  made.url = "http://localhost/a";
  return made;
}

TEST(the_response_arrives) {
  CHECK(is_faked);
  std::string body;
  const HttpResponse response = http_get(request(),
                                         [&](const HttpResponse& so_far, const char* data, std::size_t size) {
                                           CHECK(so_far.status == 200);
                                           body.append(data, size);
                                           return true;
                                         },
                                         {});
  CHECK(body == "first second" && response.header("a-name-that-is-long-enough") == "for an allocation of its own");
}

TEST(any_allocation_of_a_callback_fails) {
  const HttpRequest made = request();
  const std::function<bool(const HttpResponse&, const char*, std::size_t)> take =
      [](const HttpResponse&, const char* data, std::size_t size) {
        return !std::string(100, ' ').append(data, size).empty();
      };
  int at = 1, num_failed = 0;
  for (bool has_failed = true; has_failed; ++at) {
    const int before = num_returned();
    faults::allocation = at;
    bool has_thrown = false;
    try {
      (void)http_get(made, take, {});
    } catch (const std::bad_alloc&) {
      has_thrown = true;
    }
    has_failed = faults::allocation == 0;
    faults::allocation = -1;
    CHECK(has_thrown == has_failed && num_returned() == before + 1);
    num_failed += has_thrown ? 1 : 0;
  }
  CHECK(num_failed >= 5);
}

TEST(what_a_callback_throws_is_the_callers) {
  const int before = num_returned();
  const auto all = [](const HttpResponse&, const char*, std::size_t) { return true; };
  const auto broken = [](const HttpResponse&, const char*, std::size_t) -> bool { throw Error("a full disk"); };
  CHECK_THROWS(http_get(request(), broken, {}), Error, "a full disk");
  CHECK_THROWS(http_get(request(), all, []() -> bool { throw std::runtime_error("no clock"); }), std::runtime_error,
               "no clock");
  CHECK_THROWS(http_get(request(), all, [] { return true; }), Cancelled, "interrupted");
  CHECK(num_returned() == before + 3);
}

}  // namespace

TEST_MAIN()
