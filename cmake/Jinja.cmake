# Parts of LLAMA_SOURCE's common/ as static libraries: llama::jinja, its Jinja engine, patched; llama::chat, which
# derives from a chat template how a model writes tool calls, and parses its output.

set(jinja_source "${PROJECT_BINARY_DIR}/jinja")
specdec_patched_copy(jinja "${jinja_source}")

add_library(llama_cpp_jinja STATIC)
foreach(name jinja/filters jinja/lexer jinja/parser jinja/runtime jinja/string jinja/value json unicode)
  target_sources(llama_cpp_jinja PRIVATE "${jinja_source}/common/${name}.cpp")
endforeach()
target_include_directories(llama_cpp_jinja SYSTEM PUBLIC "${jinja_source}/common")
specdec_third_party(llama_cpp_jinja)
specdec_not_hot(llama_cpp_jinja)
target_link_libraries(llama_cpp_jinja PRIVATE llama_cpp_public nlohmann_json)
add_library(llama::jinja ALIAS llama_cpp_jinja)

add_library(llama_cpp_chat STATIC "${fetch_dir}/chat_support.cpp")
file(GLOB chat_parsers CONFIGURE_DEPENDS "${jinja_source}/common/parsers/*.cpp")
target_sources(llama_cpp_chat PRIVATE ${chat_parsers})
foreach(name chat chat-auto-parser-generator chat-auto-parser-helpers chat-diff-analyzer chat-peg-parser peg-parser
        json-schema json-schema-to-grammar trie jinja/caps)
  target_sources(llama_cpp_chat PRIVATE "${jinja_source}/common/${name}.cpp")
endforeach()
specdec_third_party(llama_cpp_chat)
specdec_not_hot(llama_cpp_chat)
target_link_libraries(llama_cpp_chat PUBLIC llama_cpp_jinja PRIVATE llama_cpp_public nlohmann_json)
add_library(llama::chat ALIAS llama_cpp_chat)
set_target_properties(llama_cpp_jinja llama_cpp_chat PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
# Specializes templates that the others use.
set_source_files_properties("${jinja_source}/common/json.cpp" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
# Names of its functions (truncate, select) are those of system headers.
set_source_files_properties("${jinja_source}/common/jinja/filters.cpp" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
