#include "chat/jinja_template.h"

#include <cstddef>
#include <exception>

#include "chat/jinja_limits.h"
#include "chat/json_argument.h"
#include "jinja/lexer.h"
#include "jinja/limits.h"
#include "jinja/parser.h"
#include "jinja/runtime.h"

namespace specdec {
namespace {

constexpr std::size_t max_source = 1 << 20;
// Most templates of llama.cpp's models/templates take 10 steps and 200 bytes of work per byte of input. Some search all
// messages for each one: with 400 messages (33 KB), up to 180 steps and 10,000 bytes per byte.
constexpr std::size_t base_steps = 5'000'000, steps_per_byte = 200;
constexpr std::size_t base_bytes = 512 << 20, bytes_per_byte = 4000;
constexpr std::size_t max_jinja_depth = 300;

// llama.cpp's lexer removes every "\r" separately, which takes time quadratic in their number.
std::string with_unix_lines(const std::string& text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') out += text[i];
    else if (i + 1 == text.size() || text[i + 1] != '\n') out += '\n';
  }
  return out;
}

// Shortens "While executing CallExpression at line 3, column 5 in source: ... Error: what" to "what (line 3, column
// 5)".
std::string shortened(const std::string& message) {
  const std::string before = "\nError: ", place = " at line ", after = " in source:";
  const std::size_t error = message.find(before), at = message.find(place), end = message.find(after);
  if (error == std::string::npos || at == std::string::npos || end == std::string::npos || end < at) return message;
  std::string what = message.substr(error + before.size());
  const std::string raised = "Jinja Exception: ";
  if (what.compare(0, raised.size(), raised) == 0) what.erase(0, raised.size());
  return what + " (" + message.substr(at + 4, end - at - 4) + ")";
}

// Runs body() and turns its exceptions into TemplateErrors.
template <class Body>
auto checked(Body body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw TemplateError(shortened(error.what()));
  }
}

}  // namespace

struct JinjaTemplate::Program {
  std::string source;
  jinja::program parsed;
};

JinjaTemplate::JinjaTemplate(const std::string& source) {
  if (source.size() > max_source) throw TemplateError("it is longer than 1 MiB");
  program_ = checked([&] {
    jinja::lexer lexer;
    const jinja::lexer_result tokens = lexer.tokenize(with_unix_lines(source));
    return std::make_unique<Program>(Program{tokens.source, jinja::parse_from_tokens(tokens)});
  });
}

JinjaTemplate::~JinjaTemplate() = default;
JinjaTemplate::JinjaTemplate(JinjaTemplate&&) noexcept = default;
JinjaTemplate& JinjaTemplate::operator=(JinjaTemplate&&) noexcept = default;

MarkedText JinjaTemplate::render(const TemplateVariables& variables) const {
  common_json input = json_argument("template variables", variables.others);
  if (!input.is_object()) throw std::invalid_argument("template variables: not a JSON object");
  input["messages"] = json_argument("messages", variables.messages);
  input["tools"] = json_argument("tools", variables.tools);
  const std::size_t input_size = variables.messages.size() + variables.tools.size() + variables.others.size();
  return checked([&] {
    jinja::limits limits;
    limits.steps = base_steps + steps_per_byte * input_size;
    limits.bytes = base_bytes + bytes_per_byte * input_size;
    limits.depth = max_jinja_depth;
    const Limited limited(limits);
    jinja::context context(program_->source);
    jinja::global_from_json(context, input, true);
    context.set_val("documents", jinja::mk_val<jinja::value_none>());
    context.set_val("add_generation_prompt", jinja::mk_val<jinja::value_bool>(variables.add_generation_prompt));
    context.set_val("bos_token", jinja::mk_val<jinja::value_string>(variables.bos_token));
    context.set_val("eos_token", jinja::mk_val<jinja::value_string>(variables.eos_token));
    const jinja::value_string rendered =
        jinja::runtime::gather_string_parts(jinja::runtime(context).execute(program_->parsed));
    MarkedText marked;
    for (const jinja::string_part& part : rendered->val_str.parts) {
      if (part.is_input && !part.val.empty())
        marked.input.emplace_back(marked.text.size(), marked.text.size() + part.val.size());
      marked.text += part.val;
    }
    return marked;
  });
}

}  // namespace specdec
