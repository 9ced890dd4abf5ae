#include "server/picture_parts.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "base/base64.h"
#include "base/error.h"
#include "pictures/decode.h"
#include "platform/http.h"
#include "server/messages.h"

namespace specdec::server {
namespace {

// "data:image/png;base64,...": the part after the comma; text without a scheme is base64.
std::string data_of(const std::string& path, const std::string& url) {
  std::string_view data = url;
  if (url.compare(0, 5, "data:") == 0) {
    const std::size_t comma = url.find(',');
    const std::string head = url.substr(0, std::min(comma, std::size_t{256}));
    if (comma == std::string::npos || head.find(";base64") == std::string::npos)
      throw invalid_request(path, path + " is not a picture: a data URL must be in base64 (data:image/png;base64,...)");
    data.remove_prefix(comma + 1);
  }
  if (data.size() / 4 * 3 > most_picture_bytes + 3) {
    throw invalid_request(path, path + " is a picture of more than " + std::to_string(most_picture_bytes >> 20) +
                                    " MiB, the most that is read");
  }
  std::optional<std::string> bytes = from_base64(data);
  if (!bytes || bytes->empty()) throw invalid_request(path, path + " is not a picture: it is not base64");
  return std::move(*bytes);
}

// The rest of a larger file is not read.
std::string fetched(const std::string& path, const std::string& url) {
  constexpr auto longest = std::chrono::seconds(30);
  const auto start = std::chrono::steady_clock::now();
  std::string bytes;
  const auto take = [&](const specdec::HttpResponse&, const char* data, std::size_t count) {
    bytes.append(data, count);
    return bytes.size() <= most_picture_bytes;
  };
  const auto is_late = [&] { return std::chrono::steady_clock::now() - start > longest; };
  specdec::HttpRequest request;
  request.url = url;
  request.only_public = true;
  specdec::HttpResponse response;
  try {
    response = http_get(request, take, is_late);
  } catch (const Cancelled&) {
    throw invalid_request(path, path + " cannot be fetched within " + std::to_string(longest.count()) + " seconds");
  } catch (const Error& error) {
    throw invalid_request(path, path + " cannot be fetched: " + error.what());
  }
  if (response.status == 200) return bytes;
  throw invalid_request(path,
                        path + " cannot be fetched: the host answered with HTTP " + std::to_string(response.status));
}

}  // namespace

bool is_picture(const Json& part) {
  const auto type = part.is_object() ? part.find("type") : part.end();
  return part.is_object() && type != part.end() && (*type == "image_url" || *type == "input_image" || *type == "image");
}

Json picture_part(const std::string& url, const std::string& path) {
  return {{"type", "image_url"}, {"image_url", {{"url", url}}}, {"path", path}};
}

Json picture_part(const Fields& part) {
  const std::string type = part.required_text("type");
  if (type == "image" && part.find("source") != nullptr) {  // Anthropic's
    const Fields source(part.required("source"), part.path("source"));
    const std::string kind = source.required_text("type");
    if (kind == "base64") return picture_part(source.required_text("data"), source.path("data"));
    if (kind == "url") return picture_part(source.required_text("url"), source.path("url"));
    throw wrong_value(source.path("type"), kind, R"("base64" or "url")");
  }
  const std::string field = part.find("image_url") != nullptr || type != "image" ? "image_url" : "image";
  if (part.find(field) == nullptr && part.find("file_id") != nullptr)
    throw invalid_request(part.path("file_id"),
                          part.path("file_id") + " is not supported; send the picture itself, as a data URL");
  const Json& given = part.required(field);
  if (given.is_string()) return picture_part(given.get<std::string>(), part.path(field));
  const Fields url(given, part.path(field));
  return picture_part(url.required_text("url"), url.path("url"));
}

Json content_with_pictures(const std::string& path, const Json& content, const std::vector<std::string>& types) {
  if (!content.is_array() || std::none_of(content.begin(), content.end(), is_picture))
    return read_content(path, content, types);
  Json parts = Json::array();
  for (std::size_t i = 0; i < content.size(); ++i) {
    const std::string place = path + "[" + std::to_string(i) + "]";
    if (is_picture(content[i])) parts.push_back(picture_part(Fields(content[i], place)));
    else parts.push_back({{"type", "text"}, {"text", read_content(path, Json::array({content[i]}), types)}});
  }
  return parts;
}

std::shared_ptr<const PictureFile> read_picture(const Service& service, const std::string& path,
                                                const std::string& url) {
  const PictureReader& reader = service.generator().pictures();
  if (!reader.reads_pictures()) throw invalid_request(path, path + " is a picture, and " + reader.why_not());
  constexpr std::string_view of_files = "file://";
  if (service.options().reads_picture_files && url.compare(0, of_files.size(), of_files) == 0)
    return read_picture(service, path, url.substr(of_files.size()));
  auto picture = std::make_shared<PictureFile>();
  picture->name = path;
  const bool is_http = url.compare(0, 7, "http://") == 0 || url.compare(0, 8, "https://") == 0;
  if (is_http && service.options().fetches_pictures) {
    picture->bytes = fetched(path, url);
    return picture;
  }
  const std::size_t scheme = url.find("://");
  if (scheme != std::string::npos && scheme < 16) {
    throw invalid_request(path, path + " is a URL (" + url.substr(0, scheme) +
                                    "://...), and this server fetches nothing; send the picture itself, as a data "
                                    "URL (data:image/png;base64,...)");
  }
  if (service.options().reads_picture_files && url.compare(0, 5, "data:") != 0) {
    picture->name = url;
    picture->bytes = bytes_of_picture(url);
  } else {
    picture->bytes = data_of(path, url);
  }
  return picture;
}

std::shared_ptr<const PictureFile> read_picture(const Service& service, const Fields& part) {
  const Json own = part.find("path") == nullptr ? picture_part(part) : part.object();
  const Fields normal(own, part.path());
  return read_picture(service, normal.required_text("path"),
                      Fields(normal.required("image_url"), normal.path("image_url")).required_text("url"));
}

}  // namespace specdec::server
