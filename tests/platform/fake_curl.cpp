// A library with libcurl's functions for test_http.cpp: one response, of two headers and two pieces, and a count of the
// transfers that returned. What a callback throws leaves it without a word, as it leaves C.
#include <cstdarg>
#include <cstddef>
#include <cstdint>

namespace {

using Take = std::size_t (*)(const char*, std::size_t, std::size_t, void*);
using Progress = int (*)(void*, std::int64_t, std::int64_t, std::int64_t, std::int64_t);

struct Transfer {
  Take on_header, on_body;
  Progress on_progress;
  void *header_data, *body_data, *progress_data;
} transfer;

int returned = 0, list = 0;

bool pass(Take take, const char* text, void* data) {
  std::size_t size = 0;
  while (text[size] != '\0') ++size;
  return take(text, 1, size, data) == size;
}

}  // namespace

#define CURL extern "C" __attribute__((visibility("default")))

CURL int fake_curl_returned() { return returned; }

CURL int curl_global_init(long) { return 0; }
CURL void* curl_easy_init() { return &transfer; }
CURL void curl_easy_cleanup(void*) {}
CURL const char* curl_easy_strerror(int) { return "a callback said no"; }
CURL void* curl_slist_append(void*, const char*) { return &list; }
CURL void curl_slist_free_all(void*) {}

CURL int curl_easy_setopt(void*, int option, ...) {
  std::va_list rest;
  va_start(rest, option);
  switch (option) {
    case 20079:
      transfer.on_header = va_arg(rest, Take);
      break;
    case 20011:
      transfer.on_body = va_arg(rest, Take);
      break;
    case 20219:
      transfer.on_progress = va_arg(rest, Progress);
      break;
    case 10029:
      transfer.header_data = va_arg(rest, void*);
      break;
    case 10001:
      transfer.body_data = va_arg(rest, void*);
      break;
    case 10057:
      transfer.progress_data = va_arg(rest, void*);
      break;
    default:
      break;
  }
  va_end(rest);
  return 0;
}

CURL int curl_easy_perform(void*) {
  constexpr int write_error = 23;
  const bool is_complete =
      pass(transfer.on_header, "HTTP/1.1 200 OK\r\n", transfer.header_data) &&
      pass(transfer.on_header, "A-Name-That-Is-Long-Enough: for an allocation of its own\r\n", transfer.header_data) &&
      transfer.on_progress(transfer.progress_data, 2, 0, 0, 0) == 0 &&
      pass(transfer.on_body, "first ", transfer.body_data) && pass(transfer.on_body, "second", transfer.body_data);
  ++returned;
  return is_complete ? 0 : write_error;
}
