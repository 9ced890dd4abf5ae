#include "cli/version.h"

namespace specdec::cli {

const char* const version = SPECDEC_VERSION;
const char* const build = SPECDEC_BUILD;

}  // namespace specdec::cli
