// Replies whose parts are sent as they are made: server-sent events, and lines of JSON.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "server/http_server.h"
#include "server/json_body.h"

namespace specdec::server {

// A slow client delays nobody else: pieces wait in their RequestHandle, at most a context of them, and a client that
// accepts nothing for HttpOptions::patience is dropped.
class EventStream {
 public:
  explicit EventStream(const Write& write) : write_(write) {}

  // Throw ClientGone.
  void send(const Json& data);                            // data: {...}
  void send(const std::string& event, const Json& data);  // event: ...; data: {...}
  void send_done();                                       // data: [DONE]
  // Sends a comment, which readers ignore, if nothing was sent for this long; 0 or less: never.
  void keep_alive(std::chrono::seconds interval, const std::string& text = "");
  void comment(const std::string& text);
  const Write& write() const { return write_; }  // for events that are already text

 private:
  void put(const std::string& text);

  const Write& write_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// A reply with the events that body() sends. If body() throws, the error is sent as a last event, {"error": ...}; in
// Anthropic's form as the event "error".
HttpReply event_reply(std::function<void(EventStream&)> body, ErrorForm form = ErrorForm::openai);

// JSON values, one per line, in Ollama's form. Slow clients and errors are handled as above.
class LineStream {
 public:
  explicit LineStream(const Write& write) : write_(write) {}

  void send(const Json& line);  // throws ClientGone

 private:
  const Write& write_;
};
HttpReply line_reply(std::function<void(LineStream&)> body);

}  // namespace specdec::server
