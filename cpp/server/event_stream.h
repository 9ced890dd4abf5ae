// Replies whose parts the client gets as they are made: server-sent events, and lines of JSON.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "server/http_server.h"
#include "server/json_body.h"

namespace specdec::server {

// The client's slowness holds up nobody else: pieces wait in their RequestHandle, at most a context of them, and a
// client that accepts nothing for HttpOptions::patience is dropped.
class EventStream {
 public:
  explicit EventStream(const Write& write) : write_(write) {}

  // Throw ClientGone.
  void send(const Json& data);                            // data: {...}
  void send(const std::string& event, const Json& data);  // event: ...; data: {...}
  void send_done();                                       // data: [DONE]
  // A comment, which readers ignore, if nothing was sent for so long; 0 or less: never.
  void keep_alive(std::chrono::seconds interval, const std::string& text = "");
  void comment(const std::string& text);
  const Write& write() const { return write_; }  // for events that are text already

 private:
  void put(const std::string& text);

  const Write& write_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// A reply of events that body() sends. What it throws is sent as a last event, {"error": ...}; in Anthropic's form the
// event "error".
HttpReply event_reply(std::function<void(EventStream&)> body, ErrorForm form = ErrorForm::openai);

// JSON values, one a line, as Ollama has them. The same holds for clients that are slow, and for errors.
class LineStream {
 public:
  explicit LineStream(const Write& write) : write_(write) {}

  void send(const Json& line);  // throws ClientGone

 private:
  const Write& write_;
};
HttpReply line_reply(std::function<void(LineStream&)> body);

}  // namespace specdec::server
