#include "server/chat_request.h"

#include "server/messages.h"
#include "server/request_fields.h"

namespace specdec::server {

ChatRequest read_chat_request(const Service& service, const Fields& body, const Client& client) {
  ChatRequest chat{read_options(service, body, client.record.get()), read_tools(body), nullptr};
  Conversation conversation = read_conversation(service, body, chat.tools);
  chat.request.set_prompt(fitting_prompt(service, conversation, client));
  chat.parser = prepare_answer(service, chat.tools, conversation, chat.request);
  return chat;
}

}  // namespace specdec::server
