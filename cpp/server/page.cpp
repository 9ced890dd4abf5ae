// GET /: a page to chat with this server (page.html).
#include "server/endpoints.h"

namespace specdec::server {

HttpReply page(ModelPool&, const HttpRequest&) {
  static const std::string html =
#include "page.inc"
      ;
  HttpReply reply;
  reply.content_type = "text/html; charset=utf-8";
  reply.body = html;
  // The page runs only its own script, talks only to this server, and cannot turn texts into elements.
  reply.headers = {{"Content-Security-Policy",
                    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; "
                    "img-src data:; "
                    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"}};
  return reply;
}

}  // namespace specdec::server
