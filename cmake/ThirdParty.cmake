# A target of other people's sources: without our warnings, without debug information, and not in the list that
# clang-tidy reads. The thread sanitizer needs it, too: code that it did not compile reads the guard of a static unseen,
# so what the static holds looks unguarded.
function(specdec_third_party target)
  target_compile_options(${target} PRIVATE -w -g0)
  if(SPECDEC_SANITIZE STREQUAL "thread")
    target_compile_options(${target} PRIVATE -fsanitize=thread)
  endif()
  set_target_properties(${target} PROPERTIES EXPORT_COMPILE_COMMANDS OFF)
endfunction()

# A target that passes of a model run, but without loops over weights or rows: -O2 compiles in nine tenths of the time
# of -O3.
function(specdec_no_loops target)
  target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O2>)
endfunction()

# A target that no pass of a model runs, or once a pass: -O1 compiles in two thirds of the time of -O3.
function(specdec_not_hot target)
  target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O1>)
endfunction()

# Files of a target in units of 24, each of which reads the headers and instantiates the templates once; that takes up
# to 20 seconds and 1 GB. ALONE: files whose classes have members with types of an anonymous namespace, of which GCC
# warns in a unit.
function(specdec_several_at_once target)  # ALONE...
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${SPECDEC_UNITY} UNITY_BUILD_BATCH_SIZE 24)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
