// POST /v1/messages and /v1/messages/count_tokens of Anthropic's API.
#include <limits>
#include <memory>
#include <utility>

#include "server/anthropic_input.h"
#include "server/assistant_message.h"
#include "server/endpoints.h"
#include "server/event_stream.h"
#include "server/generation.h"
#include "server/messages.h"
#include "server/replies.h"
#include "server/request_fields.h"
#include "server/tools.h"

namespace specdec::server {
namespace {

struct MessageOptions : ReplyOptions {
  bool shows_thinking = true;
  Request request;
};

// The content of one message: blocks (thinking, text, calls), written one after another. Additions are also sent as
// events if there is a stream.
class Content {
 public:
  Content(bool shows_thinking, EventStream* events) : shows_thinking_(shows_thinking), events_(events) {}

  // Adds a delta of the chat API's message.
  void add(const Json& delta) {
    if (delta.contains("reasoning_content")) {
      if (type() != "thinking") open({{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
      if (shows_thinking_) add_text("thinking", "thinking_delta", delta["reasoning_content"]);
    }
    if (delta.contains("content")) {
      if (type() != "text") open({{"type", "text"}, {"text", ""}});
      add_text("text", "text_delta", delta["content"]);
    }
    if (delta.contains("tool_calls")) {
      for (const Json& call : delta["tool_calls"]) add_call(call);
    }
  }

  void close() {
    if (blocks_.empty()) open({{"type", "text"}, {"text", ""}});
    close_block();
  }

  const Json& blocks() const { return blocks_; }

 private:
  std::string type() const { return is_open_ ? blocks_.back()["type"].get<std::string>() : ""; }

  void send(const char* event, const Json& json) {
    if (events_ == nullptr) return;
    Json whole = {{"type", event}, {"index", blocks_.size() - 1}};
    whole.update(json);
    events_->send(event, whole);
  }
  void send_delta(const char* type, const char* name, const std::string& value) {
    send("content_block_delta", {{"delta", {{"type", type}, {name, value}}}});
  }

  void open(Json block) {
    close_block();
    blocks_.push_back(std::move(block));
    is_open_ = true;
    arguments_.clear();
    send("content_block_start", {{"content_block", blocks_.back()}});
  }

  void close_block() {
    if (!is_open_) return;
    // A call that was cut off may have no complete input.
    if (type() == "tool_use") {
      Json input = Json::parse(arguments_, nullptr, false);
      if (input.is_object()) blocks_.back()["input"] = std::move(input);
    }
    if (type() == "thinking") send_delta("signature_delta", "signature", "");  // some clients wait for a signature
    is_open_ = false;
    send("content_block_stop", Json::object());
  }

  void add_text(const char* field, const char* delta, const std::string& text) {
    Json& block = blocks_.back();
    block[field] = block[field].get_ref<const std::string&>() + text;
    send_delta(delta, field, text);
  }

  void add_call(const Json& call) {
    const Json& function = call["function"];
    if (call.contains("id")) {  // a new one
      open({{"type", "tool_use"}, {"id", call["id"]}, {"name", function["name"]}, {"input", Json::object()}});
    }
    const std::string arguments = function["arguments"].get<std::string>();
    arguments_ += arguments;
    if (!arguments.empty()) send_delta("input_json_delta", "partial_json", arguments);
  }

  const bool shows_thinking_;
  EventStream* const events_;  // null: none
  Json blocks_ = Json::array();
  bool is_open_ = false;   // the last block
  std::string arguments_;  // of the last block if it is a call
};

class Message {
 public:
  Message(Service& service, Generation& generation, const MessageOptions& options, EventStream* events)
      : service_(service),
        generation_(generation),
        options_(options),
        events_(events),
        message_(options.parser),
        content_(options.shows_thinking, events) {}

  Json collected() {
    const Answer answer = read(generation_.next());
    Json json = heading();
    json["content"] = content_.blocks();
    json.update(end_of(answer));
    json["usage"] = usage(answer.stats);
    return json;
  }

  // The stream begins once the prompt was read, because the first event says how much of it was cached.
  void stream() {
    generation_.keep_alive(*events_);
    std::optional<Generation::Item> first = generation_.next();
    Json start = heading();
    start["usage"] = usage(generation_.stats(0));
    send("message_start", {{"message", start}});
    send("ping", Json::object());
    const Answer answer = read(std::move(first));
    send("message_delta", {{"delta", end_of(answer)}, {"usage", usage(answer.stats)}});
    send("message_stop", Json::object());
  }

 private:
  // Reads piece by piece, because an answer that may have only one call ends after it.
  Answer read(std::optional<Generation::Item> item) {
    Answer answer;
    for (; item; item = generation_.next()) {
      for (const Json& delta : message_.add(item->piece)) content_.add(delta);
      answer.add(std::move(item->piece));
      if (answer.finish_reason || !message_.is_over()) continue;
      generation_.finish(0);
      answer.finish_reason = FinishReason::stop;
    }
    content_.close();
    answer.stats = generation_.stats(0);
    return answer;
  }

  void send(const char* event, const Json& json) {
    Json whole = {{"type", event}};
    whole.update(json);
    events_->send(event, whole);
  }

  Json heading() const {
    return {{"id", new_id("msg_")},     {"type", "message"},
            {"role", "assistant"},      {"model", service_.options().model_name},
            {"content", Json::array()}, {"stop_reason", nullptr},
            {"stop_sequence", nullptr}};
  }

  Json end_of(const Answer& answer) const {
    const auto end = [](const char* reason) { return Json({{"stop_reason", reason}, {"stop_sequence", nullptr}}); };
    if (answer.finish_reason == FinishReason::context) return end("model_context_window_exceeded");
    if (answer.finish_reason != FinishReason::stop) return end("max_tokens");
    if (message_.has_tool_calls()) return end("tool_use");
    const std::optional<std::string> stop = stop_string(service_.generator(), options_.request, answer);
    if (!stop) return end("end_turn");
    return {{"stop_reason", "stop_sequence"}, {"stop_sequence", *stop}};
  }

  // Cached tokens do not count as input.
  Json usage(const Stats& stats) const {
    return {{"input_tokens", stats.prompt_tokens_read()},
            {"cache_creation_input_tokens", 0},
            {"cache_read_input_tokens", stats.prompt_cached_tokens},
            {"output_tokens", message_.num_tokens()},
            {"output_tokens_details", {{"thinking_tokens", message_.num_reasoning_tokens()}}}};
  }

  Service& service_;
  Generation& generation_;
  const MessageOptions& options_;
  EventStream* const events_;
  AssistantMessage message_;
  Content content_;
};

// "output_config.format", or its older name "output_format".
void read_output_format(const Service& service, Request& request, const Fields& body) {
  if (const Json* format = body.find("output_format")) read_format(service, request, Fields(*format, "output_format"));
  const Json* config = body.find("output_config");
  if (config == nullptr) return;
  const Fields fields(*config, "output_config");
  if (const Json* format = fields.find("format")) read_format(service, request, Fields(*format, fields.path("format")));
}

void read_thinking_budget(Request& request, const Fields& body) {
  const Json* given = body.find("thinking");
  if (given == nullptr) return;
  const Fields thinking(*given, "thinking");
  request.reasoning_budget =
      thinking.whole("budget_tokens", request.reasoning_budget, 1, std::numeric_limits<int>::max());
}

bool read_shows_thinking(const Fields& body) {
  const Json* thinking = body.find("thinking");
  return thinking == nullptr || Fields(*thinking, "thinking").text("display", "") != "omitted";
}

}  // namespace

HttpReply anthropic_messages(Service& service, const HttpRequest& http) {
  const Json& body = body_of(http);
  const Fields fields(body);
  const Json chat = read_anthropic_chat(fields);
  MessageOptions options;
  options.stream = fields.flag("stream", false);
  options.shows_thinking = read_shows_thinking(fields);
  options.request = read_options(service, fields, http.is_gone.record.get());
  read_thinking_budget(options.request, fields);
  read_output_format(service, options.request, fields);
  const Tools tools = read_tools(Fields(chat));
  Conversation conversation = read_conversation(service, Fields(chat), tools);
  options.request.set_prompt(fitting_prompt(service, conversation, http.is_gone));
  options.parser = prepare_answer(service, tools, conversation, options.request);
  const auto generation = std::make_shared<Generation>(service, std::vector<Request>{options.request}, http.is_gone);
  const auto stream = [&service, generation, options](EventStream& events) {
    Message(service, *generation, options, &events).stream();
  };
  HttpReply reply = options.stream ? event_reply(stream, ErrorForm::anthropic)
                                   : json_reply(Message(service, *generation, options, nullptr).collected());
  name_ignored_keywords(options.request, reply);
  return reply;
}

HttpReply anthropic_count_tokens(Service& service, const HttpRequest& http) {
  const Json& body = body_of(http);
  const Json chat = read_anthropic_chat(Fields(body));
  const Conversation conversation = read_conversation(service, Fields(chat), read_tools(Fields(chat)));
  return json_reply({{"input_tokens", num_prompt_tokens(service, conversation, http.is_gone)}});
}

}  // namespace specdec::server
