// Pictures in the messages of a request. Each API writes them in its own form; read_conversation() reads one form, to
// which the others are brought: {"type": "image_url", "image_url": {"url": ...}, "path": the place in the request}.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pictures/picture_file.h"
#include "server/json_body.h"
#include "server/service.h"

namespace specdec::server {

// Whether a part of a message's content is a picture: of type "image_url" (OpenAI's chats), "input_image" (responses)
// or "image" (Anthropic).
bool is_picture(const Json& part);

// A picture of any of these APIs in the form above. url: of Ollama's, base64 without a scheme.
Json picture_part(const Fields& part);
Json picture_part(const std::string& url, const std::string& path);

// The content of a message of another API as read_conversation() takes it: its text, or parts if pictures are among
// them. types: see read_content().
Json content_with_pictures(const std::string& path, const Json& content, const std::vector<std::string>& types);

// The bytes of a picture in the form above: of a data URL, of base64 alone, or, if the server allows it, from the
// network. Throws ApiError.
std::shared_ptr<const PictureFile> read_picture(const Service& service, const Fields& part);
// Of base64 or a data URL.
std::shared_ptr<const PictureFile> read_picture(const Service& service, const std::string& path,
                                                const std::string& url);

}  // namespace specdec::server
