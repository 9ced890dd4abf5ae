// The server's border: which requests are served at all. Decided once per request from its first line and headers,
// before its body is read and before any work; what a header means for this is decided here and nowhere else.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/api_error.h"

namespace specdec::server {

// The first line and the headers of a request, without the query.
struct RequestHead {
  std::string method, path, version;                         // "POST", "/v1/completions", "HTTP/1.1"
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case

  std::size_t count(const std::string& name) const;
  std::string value(const std::string& name) const;  // the first one; empty if there is none
};

// bytes: to the end of the blank line. nullopt: not a request of HTTP/1.0 or 1.1.
std::optional<RequestHead> parse_head(const std::string& bytes);

// How long the body is.
struct Framing {
  bool is_chunked = false;
  std::size_t body_size = 0;      // unless chunked
  bool expects_continue = false;  // the client waits for "100 Continue" before it sends the body
};
Framing read_framing(const RequestHead& head);  // throws ApiError

struct BorderRules {
  std::string listens_on;                  // --host
  std::vector<std::string> allowed_hosts;  // further names of this server: "ai.example.com", ".example.com" for all of
                                           // a domain, "*" for any name
  std::vector<std::string> cors_origins;   // of pages that may use it: "https://host:port"; "localhost" for pages of
                                           // this machine; "*" for all
  std::vector<std::string> api_keys;       // none: everyone may use it
  std::set<std::string> public_paths;      // need no key
  std::size_t max_body = 0;                // bytes
};

class Border {
 public:
  explicit Border(BorderRules rules) : rules_(std::move(rules)) {}

  // The error to answer with instead; nullopt: the request may be served.
  std::optional<ApiError> refusal(const RequestHead& head) const;
  // Whether replies may be read by the page of another origin that sent this.
  bool may_read_reply(const RequestHead& head) const;

 private:
  void check_host(const RequestHead& head) const;
  void check_origin(const RequestHead& head) const;
  void check_key(const RequestHead& head) const;
  void check_body(const RequestHead& head) const;
  bool is_own_name(const std::string& host) const;
  bool is_own_origin(const RequestHead& head, const std::string& origin) const;
  bool is_foreign_page_allowed(const std::string& origin) const;

  const BorderRules rules_;
};

}  // namespace specdec::server
