#include "server/event_stream.h"

#include <utility>

namespace specdec::server {
namespace {

// fail: sends the exception of body() as the last part.
template <class Stream>
HttpReply streamed(const char* type, std::function<void(Stream&)> body,
                   std::function<void(Stream&, const ApiError&)> fail) {
  HttpReply reply;
  reply.content_type = type;
  reply.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};  // proxies must not hold events back
  reply.stream = [body = std::move(body), fail = std::move(fail)](const Write& write) {
    Stream stream(write);
    try {
      body(stream);
    } catch (const ClientGone&) {
      throw;
    } catch (...) {
      fail(stream, to_api_error(std::current_exception()));
    }
  };
  return reply;
}

}  // namespace

void EventStream::send(const Json& data) { put("data: " + to_text(data) + "\n\n"); }

void EventStream::send(const std::string& event, const Json& data) {
  put("event: " + event + "\ndata: " + to_text(data) + "\n\n");
}

void EventStream::send_done() { put("data: [DONE]\n\n"); }

void EventStream::keep_alive(std::chrono::seconds interval, const std::string& text) {
  if (interval.count() > 0 && std::chrono::steady_clock::now() - last_ >= interval) comment(text);
}

void EventStream::comment(const std::string& text) { put(":" + text + "\n\n"); }

void EventStream::put(const std::string& text) {
  if (!write_(text)) throw ClientGone();
  last_ = std::chrono::steady_clock::now();
}

void LineStream::send(const Json& line) {
  if (!write_(to_text(line) + "\n")) throw ClientGone();
}

HttpReply event_reply(std::function<void(EventStream&)> body, ErrorForm form) {
  return streamed<EventStream>("text/event-stream", std::move(body),
                               [form](EventStream& events, const ApiError& error) {
                                 if (form == ErrorForm::anthropic) events.send("error", to_json(error, form));
                                 else events.send(to_json(error, form));
                               });
}

HttpReply line_reply(std::function<void(LineStream&)> body) {
  return streamed<LineStream>("application/x-ndjson", std::move(body), [](LineStream& lines, const ApiError& error) {
    lines.send(to_json(error, ErrorForm::ollama));
  });
}

}  // namespace specdec::server
