// Jinja templates, run by llama.cpp's common/jinja within limits.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include "base/marked_text.h"

namespace specdec {

// Thrown if a template cannot be parsed, fails, raises an exception of its own, or exceeds a limit.
struct TemplateError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The variables that a chat template sees, as in transformers: `messages`, `tools`, `documents` (none),
// `add_generation_prompt`, `bos_token` and `eos_token`; also the functions raise_exception and strftime_now.
struct TemplateVariables {
  std::string messages = "[]";  // JSON
  std::string tools = "null";   // JSON
  bool add_generation_prompt = true;
  std::string bos_token, eos_token;
  std::string others = "{}";  // JSON: further variables by name; they do not replace the ones above
};

// Limits: 1 MiB of source; blocks and expressions nested 150 deep; per rendering, steps and bytes that grow with the
// input and are far above what any known template needs.
class JinjaTemplate {
 public:
  explicit JinjaTemplate(const std::string& source);  // throws TemplateError
  ~JinjaTemplate();
  JinjaTemplate(JinjaTemplate&&) noexcept;
  JinjaTemplate& operator=(JinjaTemplate&&) noexcept;

  // Text of `messages`, `tools` and `others` is marked as input, also where the template trims, splits, joins or
  // serialises it. Throws TemplateError, std::invalid_argument for bad JSON.
  MarkedText render(const TemplateVariables& variables) const;

 private:
  struct Program;
  std::unique_ptr<Program> program_;
};

}  // namespace specdec
