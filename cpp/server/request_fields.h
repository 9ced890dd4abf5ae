// The options of a generation, as fields of a request's body, to an engine Request. Names, types, ranges and errors are
// those of the engine's table of request options, and the names that OpenAI and llama-server have for some of them.
#pragma once

#include "server/http_server.h"
#include "server/json_body.h"
#include "server/service.h"

namespace specdec::server {

// All but the prompt. What the body does not say is the server's default.
Request read_options(const Service& service, const Fields& body);

// Which text an answer may be: OpenAI's response_format, or the format of a response's text.
void read_format(const Service& service, Request& request, const Fields& format);

// A JSON schema that the text must match; path: of the field, for errors.
void set_schema(const Service& service, Request& request, const std::string& path, const Json& schema,
                bool is_strict = true);

inline constexpr const char* ignored_keywords_header = "X-Ignored-Schema-Keywords";
// This header for the reply: which keywords were left to the caller, of a schema that is not strict and of the tools
// that the answer must call or may call instead of a text in a format.
void name_ignored_keywords(const Request& request, HttpReply& reply, const std::string& callable_tools = "null");

// The OpenAI API's "stream" and "stream_options".
struct StreamOptions {
  bool is_on = false, include_usage = false;
};
StreamOptions read_stream_options(const Fields& body);

// How many answers: "n", of llama-server "n_cmpl".
int read_num_choices(const Service& service, const Fields& body);

}  // namespace specdec::server
