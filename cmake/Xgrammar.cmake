# The C++ core of the pinned xgrammar as the static library xgrammar::xgrammar: grammars, JSON schemas and regular
# expressions as masks of tokens. Its messages and failed checks go to two functions of
# cpp/constraints/xgrammar_log.cpp.

set(SPECDEC_XGRAMMAR_DIR "" CACHE PATH
  "xgrammar's sources instead of the pinned ones, copied and patched; for a build without a network")
set(xgrammar_fetch "${PROJECT_SOURCE_DIR}/third_party/xgrammar/fetch.py")
file(GLOB xgrammar_patches CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/third_party/xgrammar/patches/*.patch")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${xgrammar_fetch}" ${xgrammar_patches})
execute_process(COMMAND "${Python_EXECUTABLE}" "${xgrammar_fetch}" "${SPECDEC_CACHE_DIR}" ${SPECDEC_XGRAMMAR_DIR}
  OUTPUT_VARIABLE XGRAMMAR_SOURCE OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)

file(GLOB_RECURSE xgrammar_files "${XGRAMMAR_SOURCE}/cpp/*.cc")
list(FILTER xgrammar_files EXCLUDE REGEX "/cpp/tvm_ffi/")  # of its Python package
# Our readers of schemas come before it (cpp/constraints), and nothing reads Lark's grammars.
list(FILTER xgrammar_files EXCLUDE REGEX "/cpp/(converter_ext/|json_schema_converter|lark_converter)")
list(APPEND xgrammar_files "${PROJECT_SOURCE_DIR}/third_party/xgrammar/left_out.cpp")
set(xgrammar_hot ${xgrammar_files})  # masks of tokens; the rest reads grammars, once for a constraint
list(FILTER xgrammar_hot INCLUDE REGEX "/(earley_parser|fsm|grammar_compiler|grammar_matcher)\\.cc$")
list(REMOVE_ITEM xgrammar_files ${xgrammar_hot})
add_library(xgrammar_readers OBJECT ${xgrammar_files})
add_library(xgrammar STATIC ${xgrammar_hot} $<TARGET_OBJECTS:xgrammar_readers>)
foreach(target IN ITEMS xgrammar_readers xgrammar)
  target_include_directories(${target} SYSTEM PUBLIC "${XGRAMMAR_SOURCE}/include"
    "${XGRAMMAR_SOURCE}/3rdparty/dlpack/include")
  target_include_directories(${target} SYSTEM PRIVATE "${XGRAMMAR_SOURCE}/3rdparty/picojson" "${XGRAMMAR_SOURCE}/cpp")
  target_compile_definitions(${target} PRIVATE XGRAMMAR_LOG_CUSTOMIZE=1 XGRAMMAR_ENABLE_CPPTRACE=0
    XGRAMMAR_ENABLE_INTERNAL_CHECK=0)
  target_link_libraries(${target} PUBLIC Threads::Threads)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  specdec_third_party(${target})
endforeach()
target_compile_options(xgrammar PRIVATE -O2)
specdec_not_hot(xgrammar_readers)
add_library(xgrammar::xgrammar ALIAS xgrammar)
