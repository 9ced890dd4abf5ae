#include "platform/http.h"

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <utility>

#include "base/utf8.h"
#include "platform/library.h"
#include "platform/public_address.h"

namespace specdec {
namespace {

// From libcurl's public header; the numbers are part of its binary interface, which has not changed since version 7.16
// (2006).
constexpr int opt_writedata = 10001, opt_url = 10002, opt_range = 10007, opt_errorbuffer = 10010, opt_useragent = 10018;
constexpr int opt_httpheader = 10023, opt_headerdata = 10029, opt_xferinfodata = 10057, opt_cainfo = 10065;
constexpr int opt_writefunction = 20011, opt_headerfunction = 20079, opt_xferinfofunction = 20219;
constexpr int opt_low_speed_limit = 19, opt_low_speed_time = 20, opt_noprogress = 43, opt_followlocation = 52,
              opt_maxredirs = 68;
constexpr int opt_proxy = 10004, opt_prereqdata = 10313, opt_prereqfunction = 20312;  // the last two since 7.80
constexpr int opt_connecttimeout = 78, opt_nosignal = 99, opt_protocols = 181, opt_redir_protocols = 182;
constexpr long protocol_http = 1, protocol_https = 2;
constexpr long global_all = 3;
constexpr std::size_t error_bytes = 256;

struct Curl {
  int (*global_init)(long flags);
  void* (*init)();
  int (*setopt)(void* handle, int option, ...);
  int (*perform)(void* handle);
  void (*cleanup)(void* handle);
  const char* (*error_text)(int code);
  void* (*append)(void* list, const char* text);
  void (*free_list)(void* list);
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(find_symbol(library, name));
  return function != nullptr;
}

Curl load_curl() {
  const char* given = std::getenv("SPECDEC_LIBCURL");
  std::vector<const char*> names = curl_names();
  if (given != nullptr) names = {given};
  for (const char* name : names) {
    void* library = open_library(name);
    if (library == nullptr) continue;
    Curl curl = {};
    if (find(library, "curl_global_init", curl.global_init) && find(library, "curl_easy_init", curl.init) &&
        find(library, "curl_easy_setopt", curl.setopt) && find(library, "curl_easy_perform", curl.perform) &&
        find(library, "curl_easy_cleanup", curl.cleanup) && find(library, "curl_easy_strerror", curl.error_text) &&
        find(library, "curl_slist_append", curl.append) && find(library, "curl_slist_free_all", curl.free_list) &&
        curl.global_init(global_all) == 0) {
      return curl;
    }
    close_library(library);
  }
  throw Error(
      "downloads need libcurl, which is not installed (Debian and Ubuntu: apt install libcurl4; Fedora: dnf install "
      "libcurl; Alpine: "
      "apk add libcurl; Windows: libcurl-x64.dll, of curl for Windows, next to specdec.exe; SPECDEC_LIBCURL names a "
      "library elsewhere); or "
      "download the file another way and give its path");
}

const Curl& curl() {
  static const Curl loaded = load_curl();
  return loaded;
}

// One request and what its callbacks need.
struct Transfer {
  const std::function<bool(const HttpResponse&, const char*, std::size_t)>& take;
  const std::function<bool()>& cancelled;
  HttpResponse response;
  std::exception_ptr failure;  // thrown in a callback
  bool is_taken = false;       // `take` wants no more
  bool is_cancelled = false;
  bool is_forbidden = false;  // the host is not public
};

std::string trim(const std::string& text) {
  const char* const blank = " \t\r\n";
  const std::size_t start = text.find_first_not_of(blank);
  return start == std::string::npos ? "" : text.substr(start, text.find_last_not_of(blank) - start + 1);
}

// Every response, also a redirection, begins with a line such as "HTTP/1.1 200 OK".
void add_header(HttpResponse& response, const std::string& line) {
  if (line.compare(0, 5, "HTTP/") == 0) {
    response = HttpResponse();
    const std::size_t blank = line.find(' ');
    if (blank != std::string::npos) response.status = std::strtol(line.c_str() + blank, nullptr, 10);
  } else if (const std::size_t colon = line.find(':'); colon != std::string::npos) {
    response.headers[lower_case(line.substr(0, colon))] = trim(line.substr(colon + 1));
  }
}

// Runs what a callback does, whose exceptions must not pass libcurl's frames: http_get() throws them. Returns false
// after one.
template <class Action>
bool guarded(Transfer& transfer, const Action& action) noexcept {
  try {
    return action();
  } catch (...) {
    transfer.failure = std::current_exception();
    return false;
  }
}

extern "C" std::size_t on_header(const char* data, std::size_t size, std::size_t count, void* pointer) {
  Transfer& transfer = *static_cast<Transfer*>(pointer);
  return guarded(transfer,
                 [&] {
                   add_header(transfer.response, std::string(data, size * count));
                   return true;
                 })
             ? size * count
             : 0;  // ends the transfer
}

extern "C" std::size_t on_body(const char* data, std::size_t size, std::size_t count, void* pointer) {
  Transfer& transfer = *static_cast<Transfer*>(pointer);
  const bool goes_on = guarded(transfer, [&] {
    transfer.is_taken = !transfer.take(transfer.response, data, size * count);
    return !transfer.is_taken;
  });
  return goes_on ? size * count : 0;  // 0 ends the transfer
}

extern "C" int on_progress(void* pointer, std::int64_t, std::int64_t, std::int64_t, std::int64_t) {
  Transfer& transfer = *static_cast<Transfer*>(pointer);
  const bool goes_on = guarded(transfer, [&] {
    transfer.is_cancelled = transfer.cancelled && transfer.cancelled();
    return !transfer.is_cancelled;
  });
  return goes_on ? 0 : 1;
}

// Called once a connection stands, before anything is sent.
extern "C" int on_connected(void* pointer, char* ip, char*, int, int) {
  Transfer& transfer = *static_cast<Transfer*>(pointer);
  const bool goes_on = guarded(transfer, [&] {
    transfer.is_forbidden = !is_public_address(ip);
    return !transfer.is_forbidden;
  });
  return goes_on ? 0 : 1;
}

std::string host_of(const std::string& url) {
  const std::size_t start = url.find("://");
  if (start == std::string::npos) return url;
  const std::string rest = url.substr(start + 3, url.find('/', start + 3) - start - 3);
  return rest.substr(rest.rfind('@') + 1);  // without name and password
}

}  // namespace

std::string HttpResponse::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

HttpResponse http_get(const HttpRequest& request,
                      const std::function<bool(const HttpResponse&, const char*, std::size_t)>& take,
                      const std::function<bool()>& cancelled) {
  const Curl& library = curl();
  const std::unique_ptr<void, void (*)(void*)> handle(library.init(), library.cleanup);
  std::unique_ptr<void, void (*)(void*)> headers(nullptr, library.free_list);
  if (!handle) throw Error("libcurl cannot be initialised");
  for (const std::string& header : request.headers) {
    void* longer = library.append(headers.get(), header.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    (void)headers.release();
    headers.reset(longer);
  }
  Transfer transfer{take, cancelled, {}, nullptr};
  char reason[error_bytes] = "";
  const bool is_https = request.url.compare(0, 8, "https://") == 0;
  const auto set = [&](int option, auto value) { return library.setopt(handle.get(), option, value); };
  bool is_set = set(opt_url, request.url.c_str()) == 0;
  is_set = set(opt_protocols, protocol_http | protocol_https) == 0 && is_set;
  is_set = set(opt_redir_protocols, is_https ? protocol_https : protocol_http | protocol_https) == 0 && is_set;
  is_set = set(opt_followlocation, 1L) == 0 && set(opt_maxredirs, 10L) == 0 && is_set;
  is_set = set(opt_nosignal, 1L) == 0 && set(opt_noprogress, 0L) == 0 && is_set;
  is_set = set(opt_connecttimeout, 10L) == 0 && set(opt_low_speed_limit, 100L) == 0 &&
           set(opt_low_speed_time, 60L) == 0 && is_set;
  is_set = set(opt_errorbuffer, static_cast<char*>(reason)) == 0 && set(opt_useragent, "specdec_native") == 0 && is_set;
  is_set = set(opt_headerfunction, &on_header) == 0 && set(opt_headerdata, &transfer) == 0 && is_set;
  is_set = set(opt_writefunction, &on_body) == 0 && set(opt_writedata, &transfer) == 0 && is_set;
  is_set = set(opt_xferinfofunction, &on_progress) == 0 && set(opt_xferinfodata, &transfer) == 0 && is_set;
  if (request.only_public) {
    is_set = set(opt_proxy, "") == 0 && set(opt_prereqfunction, &on_connected) == 0 &&
             set(opt_prereqdata, &transfer) == 0 && is_set;
  }
  if (headers) is_set = set(opt_httpheader, headers.get()) == 0 && is_set;
  if (!request.range.empty()) is_set = set(opt_range, request.range.c_str()) == 0 && is_set;
  if (const char* certificates = std::getenv("SSL_CERT_FILE")) is_set = set(opt_cainfo, certificates) == 0 && is_set;
  if (!is_set) throw Error("the installed libcurl is too old or lacks HTTP; update it");

  const int code = library.perform(handle.get());
  if (transfer.failure) std::rethrow_exception(transfer.failure);
  if (transfer.is_cancelled) throw Cancelled("interrupted");
  if (transfer.is_forbidden) throw ConnectionError(host_of(request.url) + ": its address is not public");
  if (code != 0 && !transfer.is_taken) {
    throw ConnectionError(host_of(request.url) + ": " + (reason[0] != '\0' ? reason : library.error_text(code)));
  }
  return std::move(transfer.response);
}

}  // namespace specdec
