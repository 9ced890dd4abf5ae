#include "server/tokens.h"

#include "base/utf8.h"
#include "server/replies.h"

namespace specdec::server {
namespace {

Json piece_json(const std::string& bytes) {
  if (valid_utf8(bytes) == bytes) return bytes;
  return bytes_json(bytes);
}

}  // namespace

std::vector<Token> tokens_of(const Generator& generator, const std::string& text, const TokenizeOptions& options) {
  if (text.empty()) return {};
  return generator.vocabulary().tokenize(text, options.special, options.part);
}

Token read_token(const Generator& generator, const std::string& field, const Json& given) {
  const Json json = whole_number(given);
  const int size = generator.vocabulary().size();
  const bool is_id = json.is_number_unsigned() && json.get<std::uint64_t>() < static_cast<std::uint64_t>(size);
  if (!is_id) throw wrong_value(field, json, "a token id, from 0 to " + std::to_string(size - 1));
  return json.get<Token>();
}

Json bytes_json(const std::string& bytes) {
  Json list = Json::array();
  for (const char byte : bytes) list.push_back(static_cast<unsigned char>(byte));
  return list;
}

std::vector<Token> read_tokens(const Generator& generator, const std::string& field, const Json& list) {
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < list.size(); ++i)
    tokens.push_back(read_token(generator, field + "[" + std::to_string(i) + "]", list[i]));
  return tokens;
}

HttpReply tokenize(Service& service, const HttpRequest& http) {
  const Json& body = body_of(http);
  const Fields fields(body);
  const Generator& generator = service.generator();
  TokenizeOptions options;
  const bool has_prompt = fields.find("prompt") != nullptr;
  const bool adds_special = has_prompt ? fields.flag("add_special_tokens", true) : fields.flag("add_special", false);
  options.part = adds_special ? Vocabulary::Part::whole : Vocabulary::Part::middle;
  options.special = fields.flag("parse_special", true);
  const std::vector<Token> tokens = tokens_of(generator, fields.text(has_prompt ? "prompt" : "content", ""), options);
  if (!fields.flag("with_pieces", false)) return json_reply({{"tokens", tokens}});
  Json list = Json::array();
  for (const Token token : tokens)
    list.push_back({{"id", token}, {"piece", piece_json(generator.vocabulary().piece(token, true))}});
  return json_reply({{"tokens", list}});
}

HttpReply detokenize(Service& service, const HttpRequest& http) {
  const Json& body = body_of(http);
  const Json& list = Fields(body).required("tokens");
  if (!list.is_array()) throw wrong_value("tokens", list, "a list of token ids");
  const std::string text = service.generator().detokenize(read_tokens(service.generator(), "tokens", list), true);
  return json_reply({{"content", text}, {"prompt", text}});
}

HttpReply tokenizer_info(Service& service, const HttpRequest&) {
  const Vocabulary vocabulary = service.generator().vocabulary();
  const auto name = [&](Token token) {
    return token < 0 ? Json(nullptr) : Json(valid_utf8(vocabulary.piece(token, true)));
  };
  return json_reply({{"bos_token", name(vocabulary.bos())},
                     {"eos_token", name(vocabulary.eos())},
                     {"add_bos_token", vocabulary.adds_bos()},
                     {"vocab_size", vocabulary.size()},
                     {"model_max_length", service.generator().n_ctx()}});
}

}  // namespace specdec::server
