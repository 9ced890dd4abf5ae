#include "server/event_stream.h"

#include <utility>

namespace specdec::server {

void EventStream::send(const Json& data) { put("data: " + to_text(data) + "\n\n"); }

void EventStream::send(const std::string& event, const Json& data) {
  put("event: " + event + "\ndata: " + to_text(data) + "\n\n");
}

void EventStream::send_done() { put("data: [DONE]\n\n"); }

void EventStream::put(const std::string& text) {
  if (!write_(text)) throw ClientGone();
}

HttpReply event_reply(std::function<void(EventStream&)> body) {
  HttpReply reply;
  reply.content_type = "text/event-stream";
  reply.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};  // nor may a proxy keep them back
  reply.stream = [body = std::move(body)](const Write& write) {
    EventStream events(write);
    try {
      body(events);
    } catch (const ClientGone&) {
      throw;
    } catch (...) {
      events.send(to_json(to_api_error(std::current_exception())));
    }
  };
  return reply;
}

}  // namespace specdec::server
