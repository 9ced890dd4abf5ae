// POST /v1/responses of the OpenAI API: text in, text out. Nothing is kept between requests.
#include <memory>
#include <utility>

#include "server/endpoints.h"
#include "server/event_stream.h"
#include "server/generation.h"
#include "server/messages.h"
#include "server/replies.h"
#include "server/request_fields.h"

namespace specdec::server {
namespace {

// "instructions" and "input" as the messages of a chat.
Json read_messages(const Fields& body) {
  Json messages = Json::array();
  const std::string instructions = body.text("instructions", "");
  if (!instructions.empty()) messages.push_back({{"role", "system"}, {"content", instructions}});
  const Json& input = body.required("input");
  if (input.is_string()) {
    messages.push_back({{"role", "user"}, {"content", input}});
    return messages;
  }
  if (!input.is_array() || input.empty()) throw wrong_value("input", input, "a string or a list of at least one message");
  for (std::size_t i = 0; i < input.size(); ++i) {
    const Fields item(input[i], "input[" + std::to_string(i) + "]");
    const std::string type = item.text("type", "message");
    if (type != "message") throw wrong_value(item.path("type"), type, "\"message\"; other items are not supported");
    const std::string text = read_content(item.path("content"), item.required("content"), {"input_text", "output_text", "text"});
    messages.push_back({{"role", item.required_text("role")}, {"content", text}});
  }
  return messages;
}

void check_supported(const Fields& body) {
  if (body.find("previous_response_id") != nullptr) {
    throw invalid_request(
        "previous_response_id",
        "previous_response_id is not supported, because this server keeps no responses; send the whole conversation as input");
  }
}

// "text": {"format": ...}
void read_text_format(const Service& service, Request& request, const Fields& body) {
  const Json* text = body.find("text");
  if (text == nullptr) return;
  const Fields fields(*text, "text");
  if (const Json* format = fields.find("format")) read_format(service, request, Fields(*format, "text.format"));
}

class Response {
 public:
  Response(Service& service, Generation& generation) : service_(service), generation_(generation) {}

  HttpReply collected() {
    const std::vector<Answer> answers = collect(generation_);
    return json_reply(finished(answers[0]));
  }

  void stream(EventStream& events) {
    send(events, "response.created", {{"response", response("in_progress", Json::array())}});
    send(events, "response.in_progress", {{"response", response("in_progress", Json::array())}});
    send(events, "response.output_item.added", {{"output_index", 0}, {"item", message("in_progress", Json::array())}});
    send(events, "response.content_part.added", at_part({{"part", part("")}}));
    Answer answer;
    while (std::optional<Generation::Item> item = generation_.next()) {
      answer.text += item->piece.text;
      answer.finish_reason = item->piece.finish_reason;
      if (!item->piece.text.empty()) {
        send(events, "response.output_text.delta", at_part({{"delta", item->piece.text}, {"logprobs", Json::array()}}));
      }
      answer.pieces.push_back(std::move(item->piece));
    }
    answer.stats = generation_.stats(0);
    send(events, "response.output_text.done", at_part({{"text", answer.text}, {"logprobs", Json::array()}}));
    send(events, "response.content_part.done", at_part({{"part", part(answer.text)}}));
    send(events, "response.output_item.done", {{"output_index", 0}, {"item", whole_message(answer)}});
    send(events, is_cut(answer) ? "response.incomplete" : "response.completed", {{"response", finished(answer)}});
  }

 private:
  static bool is_cut(const Answer& answer) { return answer.finish_reason != FinishReason::stop; }

  static Json part(const std::string& text) {
    return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
  }

  Json message(const char* status, const Json& content) const {
    return {{"type", "message"}, {"id", message_id_}, {"status", status}, {"role", "assistant"}, {"content", content}};
  }
  Json whole_message(const Answer& answer) const { return message("completed", Json::array({part(answer.text)})); }

  Json response(const char* status, const Json& output) const {
    return {{"id", id_},
            {"object", "response"},
            {"created_at", created_},
            {"status", status},
            {"error", nullptr},
            {"incomplete_details", nullptr},
            {"model", service_.options().model_name},
            {"output", output},
            {"parallel_tool_calls", false},
            {"tool_choice", "none"},
            {"tools", Json::array()},
            {"system_fingerprint", service_.system_fingerprint()}};
  }

  Json finished(const Answer& answer) const {
    const auto num_tokens = static_cast<std::int64_t>(answer.pieces.size());
    Json json = response("completed", Json::array({whole_message(answer)}));
    json["completed_at"] = unix_time();
    if (is_cut(answer)) {
      json["status"] = "incomplete";
      json["incomplete_details"] = {{"reason", "max_output_tokens"}};
    }
    json["usage"] = {{"input_tokens", answer.stats.prompt_tokens},
                     {"input_tokens_details", {{"cached_tokens", answer.stats.prompt_cached_tokens}}},
                     {"output_tokens", num_tokens},
                     {"output_tokens_details", {{"reasoning_tokens", 0}}},
                     {"total_tokens", answer.stats.prompt_tokens + num_tokens}};
    json["timings"] = timings_json(answer.stats);
    return json;
  }

  Json at_part(Json event) const {
    event["item_id"] = message_id_;
    event["output_index"] = 0;
    event["content_index"] = 0;
    return event;
  }

  void send(EventStream& events, const std::string& type, Json event) {
    event["type"] = type;
    event["sequence_number"] = num_sent_++;
    events.send(type, event);
  }

  Service& service_;
  Generation& generation_;
  const std::string id_ = new_id("resp_"), message_id_ = new_id("msg_");
  const std::int64_t created_ = unix_time();
  int num_sent_ = 0;
};

}  // namespace

HttpReply responses(Service& service, const HttpRequest& http) {
  Json body = parse_body(http.body);
  body["messages"] = read_messages(Fields(body));
  const Fields fields(body);
  check_supported(fields);
  const bool stream = fields.flag("stream", false);
  Request request = read_options(service, fields);
  read_text_format(service, request, fields);
  request.prompt_tokens = prompt_tokens(service, read_conversation(fields), http.is_gone);
  const auto generation = std::make_shared<Generation>(service, std::vector<Request>{request}, http.is_gone);
  if (!stream) return Response(service, *generation).collected();
  return event_reply([&service, generation](EventStream& events) { Response(service, *generation).stream(events); });
}

}  // namespace specdec::server
