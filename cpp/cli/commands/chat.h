// specdec chat: a conversation, line by line.
#pragma once

namespace specdec::cli {

int run_chat(int argc, const char* const* argv);

}  // namespace specdec::cli
