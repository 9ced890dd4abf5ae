#include "server/chat_request.h"

#include "server/messages.h"
#include "server/request_fields.h"

namespace specdec::server {

ChatRequest read_chat_request(const Service& service, const Fields& body, const std::function<bool()>& cancelled) {
  ChatRequest chat{read_options(service, body), read_tools(body), nullptr};
  const Conversation conversation = read_conversation(service, body, chat.tools);
  chat.request.prompt_tokens = prompt_tokens(service, conversation, cancelled);
  chat.parser = prepare_answer(service, chat.tools, conversation, chat.request);
  return chat;
}

}  // namespace specdec::server
