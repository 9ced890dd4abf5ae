#include "server/infill.h"

namespace specdec::server {

Infill read_infill(const Fields& body) {
  Infill infill;
  infill.before = body.required_text("input_prefix") + body.text("prompt", "");
  infill.after = body.required_text("input_suffix");
  const Json* extra = body.find("input_extra");
  if (extra == nullptr) return infill;
  if (!extra->is_array()) throw wrong_value("input_extra", *extra, R"(a list of {"filename": ..., "text": ...})");
  for (std::size_t i = 0; i < extra->size(); ++i) {
    const Fields file((*extra)[i], "input_extra[" + std::to_string(i) + "]");
    infill.files.push_back({file.text("filename", "tmp"), file.required_text("text")});
  }
  return infill;
}

Prompt infill_prompt(const Service& service, const std::string& field, const Infill& infill) {
  try {
    return {"", infill_tokens(service.generator().vocabulary(), infill), {}};
  } catch (const std::invalid_argument& error) {
    throw ApiError(501, "not_supported_error", field + ": " + error.what(), field);
  }
}

}  // namespace specdec::server
