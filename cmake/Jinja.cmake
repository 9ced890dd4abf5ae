# llama.cpp's Jinja engine (common/jinja of LLAMA_SOURCE, patched) as the static library llama::jinja.

set(jinja_patches "${fetch_dir}/patches/jinja")
file(GLOB patches CONFIGURE_DEPENDS "${jinja_patches}/*.patch")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${fetch_dir}/jinja.py" ${patches})
set(jinja_source "${PROJECT_BINARY_DIR}/jinja")
execute_process(COMMAND "${Python_EXECUTABLE}" "${fetch_dir}/jinja.py" "${LLAMA_SOURCE}" "${jinja_source}" COMMAND_ERROR_IS_FATAL ANY)

add_library(llama_cpp_jinja STATIC)
foreach(name jinja/lexer jinja/parser jinja/runtime jinja/string jinja/value json unicode)
  target_sources(llama_cpp_jinja PRIVATE "${jinja_source}/common/${name}.cpp")
endforeach()
target_include_directories(llama_cpp_jinja SYSTEM PUBLIC "${jinja_source}/common")
target_compile_options(llama_cpp_jinja PRIVATE -w)  # not our warnings
target_link_libraries(llama_cpp_jinja PRIVATE llama_cpp_public nlohmann_json)
set_target_properties(llama_cpp_jinja PROPERTIES EXPORT_COMPILE_COMMANDS OFF)  # clang-tidy reads that list
add_library(llama::jinja ALIAS llama_cpp_jinja)
