// POST /api/chat and /api/generate of Ollama: lines of JSON, streamed by default.
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "server/assistant_message.h"
#include "server/endpoints.h"
#include "server/event_stream.h"
#include "server/generation.h"
#include "server/infill.h"
#include "server/messages.h"
#include "server/ollama_input.h"
#include "server/replies.h"
#include "server/request_fields.h"
#include "server/tools.h"

namespace specdec::server {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t nanoseconds(double seconds) { return static_cast<std::int64_t>(1e9 * seconds); }

struct OllamaOptions : ReplyOptions {
  bool is_chat = false;
  int num_ctx = 0;  // the most tokens of prompt and answer; 0: the context's
  Request request;
  Clock::time_point start;
};

// The calls of a message. Clients get complete calls; one that was cut off is not sent.
class Calls {
 public:
  void add(const Json& deltas) {
    for (const Json& delta : deltas) {
      if (delta.contains("id")) calls_.push_back({delta["id"], delta["function"]["name"], ""});
      calls_.back().arguments += delta["function"]["arguments"].get_ref<const std::string&>();
    }
  }

  // The calls not taken yet; is_over: includes the last one.
  Json take(bool is_over) {
    Json taken = Json::array();
    const std::size_t end = calls_.size() - (is_over || calls_.empty() ? 0 : 1);
    for (; num_taken_ < end; ++num_taken_) {
      const Call& call = calls_[num_taken_];
      Json arguments = Json::parse(call.arguments.empty() ? "{}" : call.arguments, nullptr, false);
      if (!arguments.is_object()) continue;
      const Json function = {{"index", num_taken_}, {"name", call.name}, {"arguments", std::move(arguments)}};
      taken.push_back({{"id", call.id}, {"function", function}});
    }
    return taken;
  }

 private:
  struct Call {
    std::string id, name, arguments;
  };
  std::vector<Call> calls_;
  std::size_t num_taken_ = 0;
};

// The part of the answer in one line.
struct Part {
  std::string content, thinking;
  Json calls = Json::array(), logprobs = Json::array();

  bool is_empty() const { return content.empty() && thinking.empty() && calls.empty() && logprobs.empty(); }
};

class OllamaReply {
 public:
  OllamaReply(Service& service, Generation& generation, const OllamaOptions& options)
      : service_(service), generation_(generation), options_(options), message_(options.parser) {}

  Json collected() {
    Part whole;
    std::optional<FinishReason> reason;
    while (const std::optional<Generation::Item> item = generation_.next()) {
      add(whole, item->piece);
      reason = item->piece.finish_reason;
    }
    for (const Json& call : calls_.take(true)) whole.calls.push_back(call);
    return last(whole, reason);
  }

  void stream(LineStream& lines) {
    std::optional<FinishReason> reason;
    while (const std::optional<Generation::Item> item = generation_.next()) {
      Part part;
      add(part, item->piece);
      reason = item->piece.finish_reason;
      if (reason) {
        for (const Json& call : calls_.take(true)) part.calls.push_back(call);
      }
      if (!part.is_empty()) lines.send(line(part, false));
    }
    lines.send(last(Part(), reason));
  }

 private:
  void add(Part& part, const Piece& piece) {
    for (const Json& delta : message_.add(piece)) {
      if (delta.contains("reasoning_content"))
        part.thinking += delta["reasoning_content"].get_ref<const std::string&>();
      if (delta.contains("content")) part.content += delta["content"].get_ref<const std::string&>();
      if (delta.contains("tool_calls")) calls_.add(delta["tool_calls"]);
    }
    for (const Json& call : calls_.take(false)) part.calls.push_back(call);
    if (options_.has_logprobs) part.logprobs.push_back(logprob_json(service_.generator(), piece));
  }

  Json line(const Part& part, bool is_done) const {
    Json json = {{"model", service_.options().model_name}, {"created_at", rfc3339(unix_time())}};
    if (options_.is_chat) {
      Json message = {{"role", "assistant"}, {"content", part.content}};
      if (!part.thinking.empty()) message["thinking"] = part.thinking;
      if (!part.calls.empty()) message["tool_calls"] = part.calls;
      json["message"] = std::move(message);
    } else {
      json["response"] = part.content;
      if (!part.thinking.empty()) json["thinking"] = part.thinking;
    }
    if (!part.logprobs.empty()) json["logprobs"] = part.logprobs;
    json["done"] = is_done;
    return json;
  }

  Json last(const Part& part, const std::optional<FinishReason>& reason) const {
    const Stats stats = generation_.stats(0);
    Json json = line(part, true);
    json["done_reason"] = reason == FinishReason::stop ? "stop" : "length";
    json["total_duration"] = nanoseconds(std::chrono::duration<double>(Clock::now() - options_.start).count());
    json["load_duration"] = 0;
    json["prompt_eval_count"] = stats.prompt_tokens;
    json["prompt_eval_duration"] = nanoseconds(stats.prompt_seconds);
    json["eval_count"] = message_.num_tokens();
    json["eval_duration"] = nanoseconds(stats.seconds);
    json["timings"] = timings_json(stats);
    return json;
  }

  Service& service_;
  Generation& generation_;
  const OllamaOptions& options_;
  AssistantMessage message_;
  Calls calls_;
};

void read_conversation_into(OllamaOptions& options, Service& service, const Json& chat, const HttpRequest& http) {
  const Tools tools = read_tools(Fields(chat));
  Conversation conversation = read_conversation(service, Fields(chat), tools);
  options.request.set_prompt(fitting_prompt(service, conversation, http.is_gone, true, options.num_ctx));
  if (options.num_ctx > 0) {
    const int room = options.num_ctx - static_cast<int>(options.request.prompt_tokens.size());
    options.request.max_tokens = std::min(options.request.max_tokens, room);
  }
  options.parser = prepare_answer(service, tools, conversation, options.request);
}

OllamaOptions read_ollama_options(Service& service, const Fields& body, bool is_chat, RequestRecord* record) {
  OllamaOptions options;
  options.start = Clock::now();
  options.is_chat = is_chat;
  options.stream = body.flag("stream", true);
  options.has_logprobs = body.flag("logprobs", false);
  options.num_ctx = read_num_ctx(service, body, record);
  options.request = read_ollama_options(service, body, record);
  return options;
}

HttpReply answer_ollama(Service& service, const HttpRequest& http, const OllamaOptions& given) {
  const auto options = std::make_shared<const OllamaOptions>(given);
  const auto generation = std::make_shared<Generation>(service, std::vector<Request>{options->request}, http.is_gone);
  const auto stream = [&service, generation, options](LineStream& lines) {
    OllamaReply(service, *generation, *options).stream(lines);
  };
  HttpReply reply =
      options->stream ? line_reply(stream) : json_reply(OllamaReply(service, *generation, *options).collected());
  name_ignored_keywords(options->request, reply);
  return reply;
}

// The reply to a request without a prompt, which clients send to have a model loaded.
HttpReply loaded(Service& service, bool is_chat) {
  Json json = {{"model", service.options().model_name}, {"created_at", rfc3339(unix_time())}};
  if (is_chat) json["message"] = {{"role", "assistant"}, {"content", ""}};
  else json["response"] = "";
  json["done"] = true;
  json["done_reason"] = "load";
  return json_reply(json);
}

}  // namespace

HttpReply ollama_chat(Service& service, const HttpRequest& http) {
  const Json& body = body_of(http);
  const Fields fields(body);
  const Json chat = read_ollama_chat(fields);
  if (chat["messages"].empty()) return loaded(service, true);
  OllamaOptions options = read_ollama_options(service, fields, true, http.is_gone.record.get());
  read_conversation_into(options, service, chat, http);
  return answer_ollama(service, http, options);
}

HttpReply ollama_generate(Service& service, const HttpRequest& http) {
  const Json& body = body_of(http);
  const Fields fields(body);
  const std::string prompt = fields.text("prompt", ""), suffix = fields.text("suffix", "");
  if (prompt.empty() && suffix.empty()) return loaded(service, false);
  OllamaOptions options = read_ollama_options(service, fields, false, http.is_gone.record.get());
  if (!suffix.empty()) infill_prompt(service, "suffix", {prompt, suffix, {}}).put_into(options.request);
  else if (fields.flag("raw", false)) options.request.prompt = prompt;
  else read_conversation_into(options, service, read_ollama_prompt(fields), http);
  return answer_ollama(service, http, options);
}

}  // namespace specdec::server
