// Server-sent events: a reply whose parts the client gets as they are made.
#pragma once

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

 private:
  void put(const std::string& text);

  const Write& write_;
};

// A reply of events that body() sends. What it throws is sent as a last event, {"error": ...}.
HttpReply event_reply(std::function<void(EventStream&)> body);

}  // namespace specdec::server
