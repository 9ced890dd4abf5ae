// cpp/base/weight_types.h against ggml's own table.
#include <algorithm>
#include <cctype>
#include <string>

#include "base/weight_types.h"
#include "check.h"
#include "ggml.h"

namespace specdec {
namespace {

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

TEST(every_type_is_as_ggml_has_it) {
  int known = 0;
  for (int id = -1; id < GGML_TYPE_COUNT + 10; ++id) {
    const WeightType* type = find_weight_type(id);
    const bool in_ggml = id >= 0 && id < GGML_TYPE_COUNT && ggml_blck_size(static_cast<ggml_type>(id)) > 0;
    const bool is_read = in_ggml && id != type_id::mxfp6_e3m2;  // which ggml's table still has
    CHECK((type != nullptr && type->columns > 0) == is_read);
    if (!is_read) continue;
    const auto ggml = static_cast<ggml_type>(id);
    CHECK(type->id == id && type->name == upper(ggml_type_name(ggml)));
    CHECK(type->columns == ggml_blck_size(ggml) && type->bytes == static_cast<int>(ggml_type_size(ggml)));
    CHECK(is_mxfp6(id) == (ggml == GGML_TYPE_MXFP6_E2M3));
    ++known;
  }
  CHECK(known > 30);
}

}  // namespace
}  // namespace specdec

TEST_MAIN()
