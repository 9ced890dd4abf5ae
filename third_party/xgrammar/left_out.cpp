// Stands for files of xgrammar that are not compiled (cmake/Xgrammar.cmake). Its other files refer to these functions,
// which nothing calls.
#include <stdexcept>

#include "json_schema_converter.h"
#include "lark_converter.h"

namespace xgrammar {

Grammar JSONSchemaToGrammar(const std::string&, bool, std::optional<int>,
                            std::optional<std::pair<std::string, std::string>>, bool, std::optional<int>, bool,
                            JSONFormat, std::vector<std::string>) {
  throw std::logic_error("xgrammar's reader of JSON schemas is not built");
}

std::optional<JSONFormat> JSONFormatFromString(const std::string&) { return std::nullopt; }

Grammar LarkToGrammar(const std::string&, const std::optional<TokenizerInfo>&, const std::vector<NamedGrammar>&) {
  throw std::logic_error("xgrammar's reader of Lark grammars is not built");
}

}  // namespace xgrammar
