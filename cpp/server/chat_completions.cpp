// POST /v1/chat/completions of the OpenAI API, with llama-server's "timings".
#include <memory>
#include <utility>

#include "server/assistant_message.h"
#include "server/chat_request.h"
#include "server/endpoints.h"
#include "server/event_stream.h"
#include "server/generation.h"
#include "server/replies.h"
#include "server/request_fields.h"

namespace specdec::server {
namespace {

// Whether the answer is complete rather than cut off.
bool is_whole(const std::optional<FinishReason>& reason) { return reason == FinishReason::stop; }

Json finish_reason_of(const AssistantMessage& message, const std::optional<FinishReason>& reason) {
  return is_whole(reason) && message.has_tool_calls() ? Json("tool_calls") : finish_reason_json(reason);
}

ReplyOptions read_reply_options(const Fields& body) {
  ReplyOptions options = read_stream_options(body);
  options.has_logprobs = body.flag("logprobs", false);
  options.timings_per_token = body.flag("timings_per_token", false);
  options.return_progress = body.flag("return_progress", false);
  const Json* top_logprobs = body.find("top_logprobs");
  if (top_logprobs != nullptr && *top_logprobs != 0 && !options.has_logprobs) {
    throw invalid_request("top_logprobs", "top_logprobs needs logprobs: true");
  }
  return options;
}

Usage usage_of(const Generation& generation, const std::vector<AssistantMessage>& messages) {
  Usage usage;
  usage.prompt_tokens = generation.stats(0).prompt_tokens;
  usage.cached_tokens = generation.stats(0).prompt_cached_tokens;
  add_prediction(generation.all_stats(), usage);
  for (const AssistantMessage& message : messages) {
    usage.completion_tokens += static_cast<std::int64_t>(message.num_tokens());
    usage.reasoning_tokens += static_cast<std::int64_t>(message.num_reasoning_tokens());
  }
  return usage;
}

// Parses the answers while they are written, so that each ends after its first call.
std::vector<Answer> collect_calls(Generation& generation, const ReplyOptions& options,
                                  std::vector<AssistantMessage>& messages) {
  messages = std::vector<AssistantMessage>(generation.num_choices(), AssistantMessage(options.parser));
  std::vector<Answer> answers(generation.num_choices());
  while (std::optional<Generation::Item> item = generation.next()) {
    AssistantMessage& message = messages[item->choice];
    (void)message.add(item->piece);
    Answer& answer = answers[item->choice];
    answer.add(std::move(item->piece));
    if (!message.is_over() || answer.finish_reason) continue;
    generation.finish(item->choice);
    answer.finish_reason = FinishReason::stop;
  }
  return answers;
}

HttpReply collected(Service& service, Generation& generation, const ReplyOptions& options) {
  Json reply = reply_heading(service, "chatcmpl-", "chat.completion");
  Json choices = Json::array();
  std::vector<AssistantMessage> messages;
  std::vector<Answer> answers;
  if (options.ends_after_call) answers = collect_calls(generation, options, messages);
  else answers = collect(generation);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Answer& answer = answers[i];
    Json logprobs = nullptr;
    if (options.has_logprobs) {
      logprobs = {{"content", Json::array()}};
      for (const Piece& piece : answer.pieces) logprobs["content"].push_back(logprob_json(service.generator(), piece));
    }
    if (!options.ends_after_call) messages.emplace_back(options.parser).add(answer.pieces);
    AssistantMessage& message = messages[i];
    Json reason = finish_reason_of(message, answer.finish_reason);
    if (reason.is_null()) reason = "length";  // max_tokens is 0
    choices.push_back(
        {{"index", choices.size()}, {"message", message.json()}, {"logprobs", logprobs}, {"finish_reason", reason}});
  }
  reply["choices"] = choices;
  reply["usage"] = to_json(usage_of(generation, messages));
  reply["timings"] = timings_json(generation.all_stats());
  return json_reply(reply);
}

// The chunks of one reply.
class Chunks {
 public:
  Chunks(Service& service, Generation& generation, const ReplyOptions& options, EventStream& events)
      : service_(service),
        generation_(generation),
        options_(options),
        events_(events),
        heading_(reply_heading(service, "chatcmpl-", "chat.completion.chunk")),
        messages_(generation.num_choices(), AssistantMessage(options.parser)) {}

  void send_all() {
    for (std::size_t i = 0; i < generation_.num_choices(); ++i)
      send(i, {{"role", "assistant"}, {"content", nullptr}}, nullptr, nullptr);
    std::vector<bool> is_finished(generation_.num_choices());
    generation_.keep_alive(events_);
    if (options_.return_progress)
      generation_.report_progress([this](std::size_t i, const PromptProgress& progress) { send(i, progress); });
    while (const std::optional<Generation::Item> item = generation_.next()) {
      add(*item);
      if (item->piece.finish_reason) is_finished[item->choice] = true;
      if (is_finished[item->choice] || !messages_[item->choice].is_over()) continue;
      generation_.finish(item->choice);
      is_finished[item->choice] = true;
      send(item->choice, Json::object(), nullptr, finish_reason_of(messages_[item->choice], FinishReason::stop));
    }
    for (std::size_t i = 0; i < is_finished.size(); ++i) {
      if (!is_finished[i]) send(i, Json::object(), nullptr, "length");  // max_tokens is 0
    }
    if (options_.include_usage) send_usage();
    events_.send_done();
  }

 private:
  void add(const Generation::Item& item) {
    const Piece& piece = item.piece;
    Json logprobs = nullptr;
    if (options_.has_logprobs) logprobs = {{"content", Json::array({logprob_json(service_.generator(), piece)})}};
    AssistantMessage& message = messages_[item.choice];
    std::vector<Json> deltas = message.add(piece);
    if (deltas.empty() && options_.has_logprobs) deltas.push_back({{"content", ""}});
    for (const Json& delta : deltas) {
      send(item.choice, delta, logprobs, nullptr, piece.origin);
      logprobs = nullptr;  // once
    }
    if (piece.finish_reason) send(item.choice, Json::object(), nullptr, finish_reason_of(message, piece.finish_reason));
  }

  void send(std::size_t index, const Json& delta, const Json& logprobs, const Json& reason,
            DraftOrigin origin = DraftOrigin::none) {
    Json chunk = heading_;
    chunk["choices"] =
        Json::array({{{"index", index}, {"delta", delta}, {"logprobs", logprobs}, {"finish_reason", reason}}});
    if (origin != DraftOrigin::none) chunk["choices"][0]["draft_source"] = name(origin);
    const bool is_last = !reason.is_null() && !options_.include_usage;
    if (options_.include_usage) chunk["usage"] = nullptr;
    const bool has_begun = messages_[index].num_tokens() > 0;
    if (is_last || (options_.timings_per_token && has_begun)) chunk["timings"] = timings_json(generation_.stats(index));
    events_.send(chunk);
  }

  void send(std::size_t index, const PromptProgress& progress) {
    Json chunk = heading_;
    const Json delta = {{"role", "assistant"}, {"content", nullptr}};
    chunk["choices"] = Json::array({{{"index", index}, {"delta", delta}, {"finish_reason", nullptr}}});
    if (options_.include_usage) chunk["usage"] = nullptr;
    chunk["prompt_progress"] = to_json(progress);
    events_.send(chunk);
  }

  void send_usage() {
    Json chunk = heading_;
    chunk["choices"] = Json::array();
    chunk["usage"] = to_json(usage_of(generation_, messages_));
    chunk["timings"] = timings_json(generation_.all_stats());
    events_.send(chunk);
  }

  Service& service_;
  Generation& generation_;
  const ReplyOptions& options_;
  EventStream& events_;
  const Json heading_;
  std::vector<AssistantMessage> messages_;  // one per choice
};

}  // namespace

HttpReply chat_completions(Service& service, const HttpRequest& http) {
  const Json& body = body_of(http);
  const Fields fields(body);
  ReplyOptions options = read_reply_options(fields);
  const int num_choices = read_num_choices(service, fields);
  ChatRequest chat = read_chat_request(service, fields, http.is_gone);
  chat.request.logprobs = options.has_logprobs;
  options.parser = chat.parser;
  options.ends_after_call = chat.ends_after_call();
  const auto generation = std::make_shared<Generation>(service, choices_of(chat.request, num_choices), http.is_gone);
  HttpReply reply;
  if (options.stream) {
    reply = event_reply([&service, generation, options](EventStream& events) {
      Chunks(service, *generation, options, events).send_all();
    });
  } else {
    reply = collected(service, *generation, options);
  }
  name_ignored_keywords(chat.request, reply);
  return reply;
}

}  // namespace specdec::server
