// HTTP and HTTPS through the system's libcurl, loaded when first needed: so the system's proxies and certificates are
// used, and a program that downloads nothing does not depend on libcurl.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"

namespace specdec {

// There was no response, or only a part of it: the connection failed or ended early.
class ConnectionError : public Error {
  using Error::Error;
};

struct HttpRequest {
  std::string url;  // http:// or https://; redirections are followed, from https only to https
  // "Name: value". Authorization is not sent to another host after a redirection.
  std::vector<std::string> headers;
  std::string range;  // a range of bytes: "100-"; empty: everything
  // On behalf of a stranger: without a proxy, and nothing is sent to an address that is not public (public_address.h),
  // also after a redirection.
  bool only_public = false;
};

struct HttpResponse {
  long status = 0;
  std::map<std::string, std::string> headers;         // of the last response; names in lower case
  std::string header(const std::string& name) const;  // empty if there is none
};

// Passes the body to `take` in pieces as they arrive; if `take` returns false, the rest is not read and the response is
// returned as it is. cancelled() is asked about once per second and between pieces; if it returns true, the request
// ends with Cancelled. No answer for 10 seconds while connecting, or less than 100 bytes per second for a minute,
// throws ConnectionError, and so does a host that only_public forbids. Throws Error if libcurl is not installed.
HttpResponse http_get(const HttpRequest& request,
                      const std::function<bool(const HttpResponse&, const char*, std::size_t)>& take,
                      const std::function<bool()>& cancelled);

}  // namespace specdec
