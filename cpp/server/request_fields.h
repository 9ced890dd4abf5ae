// Converts the options of a generation in a request's body to an engine Request. Names, types, ranges and errors come
// from the engine's table of request options; OpenAI's and llama-server's names for some of them are also accepted.
#pragma once

#include <memory>

#include "chat/chat_output.h"
#include "server/http_server.h"
#include "server/json_body.h"
#include "server/service.h"

namespace specdec::server {

// Reads all but the prompt. Fields missing from the body get the server's defaults. record: gets the names of unknown
// fields; may be null.
Request read_options(const Service& service, const Fields& body, RequestRecord* record);

// Reads the format of an answer: OpenAI's response_format, or the format of a response's text.
void read_format(const Service& service, Request& request, const Fields& format);

// Sets a JSON schema that the text must match. path: the field's, for errors.
void set_schema(const Service& service, Request& request, const std::string& path, const Json& schema,
                bool is_strict = true);

inline constexpr const char* ignored_keywords_header = "X-Ignored-Schema-Keywords";
// Adds a header to the reply with the keywords that were left to the caller: of a schema that is not strict, and of the
// tools that the answer must call or may call instead of a text in a format.
void name_ignored_keywords(const Request& request, HttpReply& reply);

// How the answer to a request is sent. An API that has more options adds them.
struct ReplyOptions {
  bool stream = false, include_usage = false, has_logprobs = false, timings_per_token = false, return_progress = false;
  bool ends_after_call = false;                    // one call at most
  std::shared_ptr<const ChatOutputParser> parser;  // of answers; null: answers are all content
};
// With OpenAI's "stream" and "stream_options".
ReplyOptions read_stream_options(const Fields& body);

// The number of answers: "n", or llama-server's "n_cmpl".
int read_num_choices(const Service& service, const Fields& body);

}  // namespace specdec::server
