#include "server/border.h"

#include <algorithm>

#include "base/utf8.h"

namespace specdec::server {
namespace {

constexpr const char* blanks = " \t";

std::string trimmed(const std::string& text) {
  const std::size_t start = text.find_first_not_of(blanks);
  return start == std::string::npos ? "" : text.substr(start, text.find_last_not_of(blanks) - start + 1);
}

bool is_digits(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

bool is_token(const std::string& text) {
  const auto is_part = [](char c) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return is_letter || std::string("!#$%&'*+-.^_`|~").find(c) != std::string::npos;
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), is_part);
}

bool is_control(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; }

// The time depends only on the lengths.
bool equals(const std::string& given, const std::string& key) {
  unsigned difference = given.size() == key.size() ? 0u : 1u;
  for (std::size_t i = 0; i < given.size() && !key.empty(); ++i) {
    difference |=
        static_cast<unsigned>(static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(key[i % key.size()]));
  }
  return difference == 0;
}

// "name:port" or "[address]:port" as the name in lower case, without the port and a dot at the end.
std::string host_name(const std::string& authority) {
  const bool is_ipv6 = !authority.empty() && authority[0] == '[';
  const std::size_t end = is_ipv6 ? authority.find(']') : authority.find(':');
  std::string host = lower_case(authority.substr(0, is_ipv6 && end != std::string::npos ? end + 1 : end));
  if (!host.empty() && host.back() == '.') host.pop_back();
  return host;
}

// What follows "://" in an origin; empty for "null".
std::string authority_of(const std::string& origin) {
  const std::size_t scheme = origin.find("://");
  return scheme == std::string::npos ? "" : origin.substr(scheme + 3);
}

bool is_ipv4(const std::string& host) {
  int num_parts = 0;
  for (std::size_t begin = 0; begin <= host.size(); ++num_parts) {
    const std::size_t end = std::min(host.find('.', begin), host.size());
    const std::string part = host.substr(begin, end - begin);
    if (!is_digits(part) || part.size() > 3 || std::stoi(part) > 255) return false;
    begin = end + 1;
  }
  return num_parts == 4;
}

bool is_loopback_name(const std::string& host) { return host == "localhost" || host == "127.0.0.1" || host == "[::1]"; }

// Names that nobody can make the public DNS resolve to an address of his choice, so that no page of a stranger can be
// served under them: addresses, "localhost" and its subdomains, names without a dot (of containers and local networks),
// and those that containers have for their host.
bool is_nobodys_name(const std::string& host) {
  if (host.empty() || host[0] == '[' || is_ipv4(host) || host.find('.') == std::string::npos) return true;
  const std::string local = ".localhost";
  const bool ends_local =
      host.size() > local.size() && host.compare(host.size() - local.size(), local.size(), local) == 0;
  return ends_local || host == "host.docker.internal" || host == "host.containers.internal";
}

std::string with_default_port(const std::string& authority, const std::string& scheme) {
  const std::size_t after_name = authority.rfind(']') == std::string::npos ? 0 : authority.rfind(']');
  const std::string text = lower_case(authority);
  return authority.find(':', after_name) != std::string::npos ? text : text + (scheme == "https" ? ":443" : ":80");
}

ApiError forbidden(const std::string& message) { return {403, "permission_error", message}; }
ApiError unsupported_body(const std::string& message) { return {415, "invalid_request_error", message}; }

bool is_json(const std::string& content_type) {
  const std::string type = lower_case(trimmed(content_type.substr(0, content_type.find(';'))));
  const std::string suffix = "+json";
  const bool has_suffix =
      type.size() > suffix.size() && type.compare(type.size() - suffix.size(), suffix.size(), suffix) == 0;
  return type == "application/json" || has_suffix;
}

// Browsers say so of every request that can change something, and others do not.
bool is_from_page(const RequestHead& head) { return head.count("origin") > 0; }

}  // namespace

std::size_t RequestHead::count(const std::string& name) const {
  const auto is_it = [&](const auto& header) { return header.first == name; };
  return static_cast<std::size_t>(std::count_if(headers.begin(), headers.end(), is_it));
}

std::string RequestHead::value(const std::string& name) const {
  for (const auto& [own, value] : headers) {
    if (own == name) return value;
  }
  return "";
}

std::optional<RequestHead> parse_head(const std::string& bytes) {
  RequestHead head;
  bool is_first = true;
  for (std::size_t begin = 0; begin < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\n', begin), bytes.size());
    std::string line = bytes.substr(begin, end - begin);
    begin = end + 1;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (std::any_of(line.begin(), line.end(), is_control)) return std::nullopt;
    if (line.empty()) break;
    if (is_first) {
      const std::size_t target = line.find(' '), version = line.rfind(' ');
      if (target == std::string::npos || target == version) return std::nullopt;
      head.method = line.substr(0, target);
      head.path = line.substr(target + 1, version - target - 1);
      head.path.erase(std::min(head.path.find_first_of("?#"), head.path.size()));
      head.version = line.substr(version + 1);
      if (!is_token(head.method) || (head.version != "HTTP/1.0" && head.version != "HTTP/1.1")) return std::nullopt;
      is_first = false;
      continue;
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || !is_token(line.substr(0, colon))) return std::nullopt;
    head.headers.emplace_back(lower_case(line.substr(0, colon)), trimmed(line.substr(colon + 1)));
  }
  return is_first ? std::nullopt : std::optional<RequestHead>(std::move(head));
}

Framing read_framing(const RequestHead& head) {
  const auto unclear = [](const std::string& what) { return invalid_request("", what + "; the request ends there"); };
  Framing framing;
  if (head.count("transfer-encoding") > 0) {
    if (head.count("transfer-encoding") > 1 || lower_case(head.value("transfer-encoding")) != "chunked")
      throw unclear("Transfer-Encoding must be \"chunked\", once");
    if (head.count("content-length") > 0 && head.value("content-length") != "0")
      throw unclear("a request has either Transfer-Encoding or Content-Length");
    framing.is_chunked = true;
  } else if (head.count("content-length") > 0) {
    const std::string length = head.value("content-length");
    if (head.count("content-length") > 1 || !is_digits(length) || length.size() > 18)
      throw unclear("Content-Length must be a number of bytes, once");
    framing.body_size = std::stoull(length);
  }
  framing.expects_continue =
      (framing.is_chunked || framing.body_size > 0) && lower_case(head.value("expect")) == "100-continue";
  return framing;
}

std::optional<ApiError> Border::refusal(const RequestHead& head) const {
  try {
    check_host(head);
    check_origin(head);
    if (head.method == "OPTIONS") return std::nullopt;
    check_key(head);
    check_body(head);
    return std::nullopt;
  } catch (const ApiError& error) {
    return error;
  }
}

bool Border::may_read_reply(const RequestHead& head) const { return is_foreign_page_allowed(head.value("origin")); }

void Border::check_host(const RequestHead& head) const {
  if (head.count("host") > 1) throw invalid_request("", "a request has one Host header");
  const std::string host = host_name(head.value("host"));
  if (is_own_name(host)) return;
  throw forbidden("this server does not answer to the name \"" + printable(host) +
                  "\", which may be another site's; to allow it, start the server with --allowed-hosts " +
                  printable(host));
}

void Border::check_origin(const RequestHead& head) const {
  const std::string origin = head.value("origin");
  if (head.count("origin") > 1) throw invalid_request("", "a request has at most one Origin header");
  if (head.count("origin") == 1) {
    if (is_own_origin(head, origin) || is_foreign_page_allowed(origin)) return;
    throw forbidden("web pages of " + printable(origin) +
                    " may not use this server; to allow it, start the server with --cors " + printable(origin));
  }
  // Browsers leave Origin out where a page only shows what it requests, but say that the page is another site's. A
  // link to the server's own page is allowed.
  const std::string site = lower_case(head.value("sec-fetch-site"));
  const bool is_foreign = site == "cross-site" || site == "same-site";
  const bool is_link = head.method == "GET" && lower_case(head.value("sec-fetch-mode")) == "navigate";
  if (is_foreign && !is_link && rules_.cors_origins.empty())
    throw forbidden("web pages of other sites may not use this server; to allow some, start it with --cors ORIGINS");
}

void Border::check_key(const RequestHead& head) const {
  if (rules_.api_keys.empty() || rules_.public_paths.count(head.path) > 0) return;
  const std::string scheme = "Bearer ", authorization = head.value("authorization");
  const std::string key = authorization.compare(0, scheme.size(), scheme) == 0 ? authorization.substr(scheme.size())
                                                                               : head.value("x-api-key");
  bool found = false;
  // No early exit: timing must not reveal which key matched.
  for (const std::string& one : rules_.api_keys) found |= equals(key, one);
  if (!found)
    throw ApiError(401, "authentication_error",
                   "the API key is missing or wrong; send it as Authorization: Bearer KEY, or as X-Api-Key: KEY");
}

// A program may send its JSON under any type but that of a form with parts, because `curl -d` calls it a form. A page
// must call it JSON, which no page of another origin can do without asking first.
void Border::check_body(const RequestHead& head) const {
  const Framing framing = read_framing(head);
  if (!framing.is_chunked && framing.body_size == 0) return;
  if (framing.body_size > rules_.max_body)
    throw ApiError(413, "invalid_request_error", "the body is larger than this server accepts");
  const std::string encoding = lower_case(head.value("content-encoding"));
  if (head.count("content-encoding") > 1 || (!encoding.empty() && encoding != "identity"))
    throw unsupported_body("the body has the Content-Encoding \"" + printable(encoding) +
                           "\"; send it without one: this server takes no compressed bodies");
  const std::string type = head.value("content-type");
  if (lower_case(type).compare(0, 10, "multipart/") == 0) throw unsupported_body("the body must be JSON, not a form");
  if (is_from_page(head) && !is_json(type))
    throw unsupported_body("the body has the Content-Type \"" + printable(type) +
                           "\"; web pages must send application/json");
}

bool Border::is_own_name(const std::string& host) const {
  if (is_nobodys_name(host) || host == lower_case(rules_.listens_on)) return true;
  const auto is_it = [&](const std::string& given) {
    const std::string name = lower_case(given);
    if (name == "*" || name == host) return true;
    const bool is_domain = !name.empty() && name[0] == '.';
    return is_domain && host.size() > name.size() && host.compare(host.size() - name.size(), name.size(), name) == 0;
  };
  const auto is_cors = [&](const std::string& origin) {
    return origin == "*" || (!authority_of(origin).empty() && host_name(authority_of(origin)) == host);
  };
  return std::any_of(rules_.allowed_hosts.begin(), rules_.allowed_hosts.end(), is_it) ||
         std::any_of(rules_.cors_origins.begin(), rules_.cors_origins.end(), is_cors);
}

// The server's own page: under the Host of the request, or behind a proxy under a name of --allowed-hosts.
bool Border::is_own_origin(const RequestHead& head, const std::string& origin) const {
  const std::string authority = authority_of(origin), host = head.value("host");
  if (authority.empty()) return false;
  const std::string scheme = lower_case(origin.substr(0, origin.find("://")));
  if (scheme != "http" && scheme != "https") return false;
  if (!host.empty() && with_default_port(authority, scheme) == with_default_port(host, scheme)) return true;
  const std::string name = host_name(authority);
  const auto is_it = [&](const std::string& given) { return lower_case(given) == name; };
  return std::any_of(rules_.allowed_hosts.begin(), rules_.allowed_hosts.end(), is_it);
}

bool Border::is_foreign_page_allowed(const std::string& origin) const {
  if (origin.empty()) return false;
  return std::any_of(rules_.cors_origins.begin(), rules_.cors_origins.end(), [&](const std::string& one) {
    return one == "*" || one == origin || (one == "localhost" && is_loopback_name(host_name(authority_of(origin))));
  });
}

}  // namespace specdec::server
