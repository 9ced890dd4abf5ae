# Included by llama.cpp's project() (CMAKE_PROJECT_llama.cpp_INCLUDE): its files in fewer units, each of which reads the
# headers once, and -O1 for what no pass of a model runs, and for the files that list an architecture's operations: a
# pass calls them once at most, and what they call is ggml's. That is a third of its build's time, -O2 for the rest of
# llama a little more. ggml's code is the same.

# FILES of a target in units of at most SIZE, in their order.
function(specdec_units target name size)  # FILES...
  set(index 0)
  foreach(file IN LISTS ARGN)
    math(EXPR unit "${index} / ${size}")
    set_property(SOURCE "${file}" TARGET_DIRECTORY ${target} PROPERTY UNITY_GROUP "${name}_${unit}")
    set_property(SOURCE "${file}" TARGET_DIRECTORY ${target} PROPERTY SKIP_UNITY_BUILD_INCLUSION OFF)
    math(EXPR index "${index} + 1")
  endforeach()
endfunction()

function(specdec_llama_cpp_units)
  get_target_property(folder llama SOURCE_DIR)
  get_target_property(names llama SOURCES)
  list(FILTER names INCLUDE REGEX "\\.cpp$")
  set(files "")
  foreach(name IN LISTS names)
    get_filename_component(file "${name}" ABSOLUTE BASE_DIR "${folder}")
    list(APPEND files "${file}")
  endforeach()

  set(models ${files})
  list(FILTER models INCLUDE REGEX "/models/")
  set(not_hot ${files})
  list(FILTER not_hot INCLUDE REGEX "/(llama-(adapter|arch|chat|grammar|mmap|model|model-loader|model-saver|quant|\
sampler|vocab)|unicode|unicode-data)\\.cpp$")
  set(core ${files})
  list(REMOVE_ITEM core ${models} ${not_hot})

  add_library(llama_not_hot OBJECT ${not_hot} ${models})
  foreach(property IN ITEMS INCLUDE_DIRECTORIES COMPILE_DEFINITIONS COMPILE_OPTIONS)
    set_property(TARGET llama_not_hot PROPERTY ${property} "$<TARGET_PROPERTY:llama,${property}>")
  endforeach()
  target_compile_features(llama_not_hot PRIVATE cxx_std_17)
  target_compile_options(llama_not_hot PRIVATE -O1)
  set_target_properties(llama_not_hot PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)

  set_target_properties(llama PROPERTIES SOURCES "${core};$<TARGET_OBJECTS:llama_not_hot>" UNITY_BUILD_MODE GROUP)
  target_compile_options(llama PRIVATE -O2)
  specdec_units(llama core 8 ${core})
  specdec_units(llama_not_hot not_hot 6 ${not_hot})
  specdec_units(llama_not_hot models 40 ${models})  # names of deepseek4 and of glm5-next collide

  # GGML_CPU_REPACK is off, so nothing refers to these.
  get_target_property(files ggml-cpu SOURCES)
  list(FILTER files EXCLUDE REGEX "/repack\\.cpp$")
  set_property(TARGET ggml-cpu PROPERTY SOURCES "${files}")
  # Compiled, but unused: no model is split between devices. Files are read once.
  get_target_property(folder ggml-base SOURCE_DIR)
  foreach(file IN ITEMS ggml-backend-meta gguf)
    set_property(SOURCE "${folder}/${file}.cpp" TARGET_DIRECTORY ggml-base APPEND PROPERTY COMPILE_OPTIONS -O1)
  endforeach()
  target_compile_options(ggml-rpc PRIVATE -O1)
endfunction()
cmake_language(DEFER CALL specdec_llama_cpp_units)
