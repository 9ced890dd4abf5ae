// POST /v1/responses of the OpenAI API: text and function calls. Nothing is kept between requests.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "server/assistant_message.h"
#include "server/endpoints.h"
#include "server/event_stream.h"
#include "server/generation.h"
#include "server/messages.h"
#include "server/replies.h"
#include "server/request_fields.h"
#include "server/response_input.h"
#include "server/tools.h"

namespace specdec::server {
namespace {

void check_supported_response(const Fields& body) {
  if (body.find("previous_response_id") != nullptr) {
    throw invalid_request("previous_response_id",
                          "previous_response_id is not supported, because this server keeps no responses; send the "
                          "whole conversation as input");
  }
}

// Reads "text": {"format": ...}.
void read_text_format(const Service& service, Request& request, const Fields& body) {
  const Json* text = body.find("text");
  if (text == nullptr) return;
  const Fields fields(*text, "text");
  if (const Json* format = fields.find("format")) read_format(service, request, Fields(*format, "text.format"));
}

// Whether "include" asks for the tokens of the text with their log-probabilities.
bool read_includes_logprobs(const Fields& body) {
  const Json* include = body.find("include");
  if (include == nullptr) return false;
  if (!include->is_array()) throw wrong_value("include", *include, "a list of strings");
  return std::find(include->begin(), include->end(), "message.output_text.logprobs") != include->end();
}

// The fields of the request that its reply repeats.
Json read_repeated(const Fields& body) {
  const Json *tools = body.find("tools"), *tool_choice = body.find("tool_choice");
  return {{"parallel_tool_calls", body.flag("parallel_tool_calls", true)},
          {"tool_choice", tool_choice != nullptr ? *tool_choice : Json("auto")},
          {"tools", tools != nullptr ? *tools : Json::array()}};
}

// The output of one response: items (reasoning, a message, calls), written one after another. Additions are also sent
// as events if there is a stream.
class Output {
 public:
  // namespaces: see ResponseTools; must outlive this object.
  Output(EventStream* events, const std::map<std::string, Json>& namespaces)
      : events_(events), namespaces_(namespaces) {}

  // To be called before the deltas that the token causes. Log-probabilities of reasoning and calls are not in the
  // output.
  void add_logprob(Json logprob) { waiting_.push_back(std::move(logprob)); }

  // Adds a delta of the chat API's message.
  void add(const Json& delta) {
    if (!delta.contains("content")) waiting_.clear();
    if (delta.contains("reasoning_content")) {
      if (type() != "reasoning")
        open({{"type", "reasoning"}, {"id", new_id("rs_")}, {"summary", Json::array()}, {"status", "in_progress"}});
      add_text("response.reasoning_text.delta", delta["reasoning_content"]);
    }
    if (delta.contains("content")) {
      if (type() != "message") open_message();
      add_text("response.output_text.delta", delta["content"]);
    }
    if (delta.contains("tool_calls")) {
      for (const Json& call : delta["tool_calls"]) add_call(call);
    }
  }

  // is_cut: the model has not ended the text.
  void close(bool is_cut) {
    if (items_.empty()) open_message();
    if (type() == "message") (void)take_waiting();
    close_item(is_cut ? "incomplete" : "completed");
  }

  const Json& items() const { return items_; }

  void send(const std::string& type, Json event) {
    if (events_ == nullptr) return;
    event["type"] = type;
    event["sequence_number"] = num_sent_++;
    events_->send(type, event);
  }

 private:
  std::string type() const { return is_open_ ? items_.back()["type"].get<std::string>() : ""; }

  Json part() const {
    if (type() == "reasoning") return {{"type", "reasoning_text"}, {"text", text_}};
    return {{"type", "output_text"}, {"text", text_}, {"annotations", Json::array()}, {"logprobs", logprobs_}};
  }

  // The log-probabilities since the last delta, which belong to the open message.
  Json take_waiting() {
    Json taken = std::exchange(waiting_, Json::array());
    logprobs_.insert(logprobs_.end(), taken.begin(), taken.end());
    return taken;
  }

  Json at_item(Json event) const {
    event["item_id"] = items_.back()["id"];
    event["output_index"] = items_.size() - 1;
    return event;
  }
  Json at_part(Json event) const {
    event["content_index"] = 0;
    return at_item(std::move(event));
  }

  void open(Json item) {
    if (is_open_) close_item("completed");
    if (item["type"] != "function_call") item["content"] = Json::array();
    items_.push_back(std::move(item));
    is_open_ = true;
    text_.clear();
    logprobs_ = Json::array();
    send("response.output_item.added", {{"output_index", items_.size() - 1}, {"item", items_.back()}});
    if (type() != "function_call") send("response.content_part.added", at_part({{"part", part()}}));
  }
  void open_message() {
    open({{"type", "message"}, {"id", new_id("msg_")}, {"status", "in_progress"}, {"role", "assistant"}});
  }

  void add_text(const char* event, const std::string& text) {
    text_ += text;
    Json delta = {{"delta", text}};
    if (type() == "message") delta["logprobs"] = take_waiting();
    send(event, at_part(std::move(delta)));
  }

  void add_call(const Json& call) {
    const Json& function = call["function"];
    if (call.contains("id")) {  // a new one
      Json item = {{"type", "function_call"},  {"id", new_id("fc_")}, {"call_id", call["id"]},
                   {"name", function["name"]}, {"arguments", ""},     {"status", "in_progress"}};
      const auto found = namespaces_.find(function["name"].get<std::string>());
      if (found != namespaces_.end()) item.update(found->second);
      open(std::move(item));
    }
    const std::string arguments = function["arguments"].get<std::string>();
    text_ += arguments;
    if (!arguments.empty()) send("response.function_call_arguments.delta", at_item({{"delta", arguments}}));
  }

  void close_item(const char* status) {
    Json& item = items_.back();
    if (type() == "function_call") {
      item["arguments"] = text_;
      send("response.function_call_arguments.done", at_item({{"name", item["name"]}, {"arguments", text_}}));
    } else {
      const Json whole = part();
      item["content"].push_back(whole);
      Json done = {{"text", text_}};
      if (type() == "message") done["logprobs"] = logprobs_;
      send(type() == "message" ? "response.output_text.done" : "response.reasoning_text.done",
           at_part(std::move(done)));
      send("response.content_part.done", at_part({{"part", whole}}));
    }
    item["status"] = status;
    is_open_ = false;
    send("response.output_item.done", {{"output_index", items_.size() - 1}, {"item", item}});
  }

  EventStream* events_;  // null: none
  const std::map<std::string, Json>& namespaces_;
  int num_sent_ = 0;
  Json items_ = Json::array();
  bool is_open_ = false;                                     // the last item
  std::string text_;                                         // of the last item: its text, or a call's arguments
  Json logprobs_ = Json::array(), waiting_ = Json::array();  // of the item's tokens; of tokens whose text has not come
                                                             // yet
};

struct ResponseOptions : ReplyOptions {
  Json repeated;
  std::map<std::string, Json> namespaces;  // of tools
};

class Response {
 public:
  Response(Service& service, Generation& generation, const ResponseOptions& options, EventStream* events)
      : service_(service),
        generation_(generation),
        options_(options),
        message_(options.parser),
        output_(events, options.namespaces) {
    if (events != nullptr) generation_.keep_alive(*events);
  }

  Json collected() {
    if (options_.has_logprobs || options_.ends_after_call) return finished(read());
    const Answer answer = std::move(collect(generation_)[0]);
    add(message_.add(answer.pieces));
    return finished(answer);
  }

  void stream() {
    output_.send("response.created", {{"response", response("in_progress")}});
    output_.send("response.in_progress", {{"response", response("in_progress")}});
    if (options_.return_progress) {
      generation_.report_progress([this](std::size_t, const PromptProgress& progress) {
        output_.send("response.in_progress",
                     {{"response", response("in_progress")}, {"prompt_progress", to_json(progress)}});
      });
    }
    const Answer answer = read();
    const Json whole = finished(answer);
    output_.send(is_cut(answer.finish_reason) ? "response.incomplete" : "response.completed", {{"response", whole}});
  }

 private:
  static bool is_cut(const std::optional<FinishReason>& reason) { return reason != FinishReason::stop; }

  // Reads the answer piece by piece.
  Answer read() {
    Answer answer;
    while (std::optional<Generation::Item> item = generation_.next()) {
      add(item->piece);
      answer.add(std::move(item->piece));
      if (answer.finish_reason || !options_.ends_after_call || !message_.is_over()) continue;
      generation_.finish(0);
      answer.finish_reason = FinishReason::stop;
    }
    answer.stats = generation_.stats(0);
    return answer;
  }

  void add(const Piece& piece) {
    if (options_.has_logprobs) output_.add_logprob(logprob_json(service_.generator(), piece));
    add(message_.add(piece));
  }
  void add(const std::vector<Json>& deltas) {
    for (const Json& delta : deltas) output_.add(delta);
  }

  Json response(const char* status) const {
    Json json = {{"id", id_},
                 {"object", "response"},
                 {"created_at", created_},
                 {"status", status},
                 {"error", nullptr},
                 {"incomplete_details", nullptr},
                 {"model", service_.options().model_name},
                 {"output", output_.items()}};
    json.update(options_.repeated);
    json["system_fingerprint"] = service_.system_fingerprint();
    return json;
  }

  Json finished(const Answer& answer) {
    const bool cut = is_cut(answer.finish_reason);
    output_.close(cut);
    const auto num_tokens = static_cast<std::int64_t>(answer.pieces.size());
    Json json = response(cut ? "incomplete" : "completed");
    json["completed_at"] = unix_time();
    if (cut) json["incomplete_details"] = {{"reason", "max_output_tokens"}};
    json["usage"] = {{"input_tokens", answer.stats.prompt_tokens},
                     {"input_tokens_details", {{"cached_tokens", answer.stats.prompt_cached_tokens}}},
                     {"output_tokens", num_tokens},
                     {"output_tokens_details", {{"reasoning_tokens", message_.num_reasoning_tokens()}}},
                     {"total_tokens", answer.stats.prompt_tokens + num_tokens}};
    json["timings"] = timings_json(answer.stats);
    return json;
  }

  Service& service_;
  Generation& generation_;
  const ResponseOptions& options_;
  AssistantMessage message_;
  Output output_;
  const std::string id_ = new_id("resp_");
  const std::int64_t created_ = unix_time();
};

}  // namespace

HttpReply responses(Service& service, const HttpRequest& http) {
  Json body = body_of(http);
  ResponseOptions options;
  options.repeated = read_repeated(Fields(body));
  body["messages"] = read_response_messages(Fields(body));
  ResponseTools response_tools = read_response_tools(Fields(body));
  body["tools"] = std::move(response_tools.chat);
  options.namespaces = std::move(response_tools.of_namespaces);
  Json ignored_tools = Json::array();
  for (const auto& [path, type] : response_tools.left_out) ignored_tools.push_back(path + ": " + type);
  body["tool_choice"] = read_response_tool_choice(Fields(body));
  const Fields fields(body);
  check_supported_response(fields);
  options.stream = fields.flag("stream", false);
  options.return_progress = fields.flag("return_progress", false);
  options.has_logprobs = read_includes_logprobs(fields);
  Request request = read_options(service, fields, http.is_gone.record.get());
  request.logprobs = options.has_logprobs;
  read_text_format(service, request, fields);
  const Tools tools = read_tools(fields);
  Conversation conversation = read_conversation(service, fields, tools);
  request.set_prompt(fitting_prompt(service, conversation, http.is_gone));
  options.parser = prepare_answer(service, tools, conversation, request);
  options.ends_after_call = options.parser != nullptr && !tools.use.is_parallel;
  const auto generation = std::make_shared<Generation>(service, std::vector<Request>{request}, http.is_gone);
  HttpReply reply;
  if (options.stream) {
    reply = event_reply([&service, generation, options](EventStream& events) {
      Response(service, *generation, options, &events).stream();
    });
  } else {
    reply = json_reply(Response(service, *generation, options, nullptr).collected());
  }
  name_ignored_keywords(request, reply);
  if (!ignored_tools.empty()) reply.headers.emplace_back("X-Ignored-Tools", ignored_tools.dump(-1, ' ', true));
  return reply;
}

}  // namespace specdec::server
