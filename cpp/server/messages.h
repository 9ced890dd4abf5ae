// Converts the messages of a chat in a request's body to a Conversation of the engine. Also the endpoint
// /apply-template.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/http_server.h"
#include "server/json_body.h"
#include "server/service.h"
#include "server/tools.h"

namespace specdec::server {

// "messages", "add_generation_prompt", "continue_final_message" and "chat_template_kwargs". An assistant's message at
// the end is continued unless the request or the server says otherwise. The role "developer" becomes "system", which
// templates know; a list of text parts becomes one text.
Conversation read_conversation(const Service& service, const Fields& body, const Tools& tools);

// The role of a message, which must be one of the OpenAI API.
std::string read_role(const Fields& message);

// The arguments of a call as JSON: a string or an object; "{}" if they are missing or blank.
std::string read_arguments(const Fields& function);

// A message's content: a string, or a list of parts {"type": ..., "text": ...} with one of these types, joined with
// newlines. read_picture: called for pictures among them (picture_parts.h), returns what stands for each; null:
// pictures are errors.
using PictureRead = std::function<std::string(const Fields& part)>;
std::string read_content(const std::string& path, const Json& content, const std::vector<std::string>& types,
                         const PictureRead& read_picture = nullptr);

// The prompt of a conversation. If the template fails, the error is the request's, because templates check their input.
Text prompt_of(const Service& service, const Conversation& conversation, const std::function<bool()>& cancelled);

std::size_t num_prompt_tokens(const Service& service, const Conversation& conversation,
                              const std::function<bool()>& cancelled);  // also if they do not fit the context

// The prompt within the context, or within num_ctx tokens if that is less. If the server is to drop turns that do not
// fit, the oldest are removed from the conversation until the rest fits with room for a token; messages of the system
// and the last turn stay. The client's record gets their number. Throws ContextFull if that is not enough, or not
// allowed.
Text fitting_prompt(const Service& service, Conversation& conversation, const Client& client, bool is_ollamas = false,
                    int num_ctx = 0);

HttpReply apply_template(Service& service, const HttpRequest& http);
HttpReply count_chat_tokens(Service& service, const HttpRequest& http);  // {"input_tokens": ...}

}  // namespace specdec::server
