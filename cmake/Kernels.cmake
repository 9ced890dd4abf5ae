# Compiler flags of the instruction sets that kernels are compiled for; cpp/base/isa.cpp detects which ones the CPU can
# run.
include(CheckCXXCompilerFlag)

set(SPECDEC_IS_X86 OFF)
set(SPECDEC_IS_ARM OFF)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(SPECDEC_IS_X86 ON)
  check_cxx_compiler_flag(-mavxvnni SPECDEC_COMPILER_HAS_AVX_VNNI)  # GCC 11, Clang 12
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
  set(SPECDEC_IS_ARM ON)
endif()

# Besides plain C++, "best": of each family the x86 kernels that this machine chooses; "native": all that it can run,
# for tests. They are a quarter of the build. Programs for other machines have all.
set(kernels best)
if(SPECDEC_PORTABLE OR CMAKE_CROSSCOMPILING OR NOT SPECDEC_IS_X86)
  set(kernels all)
endif()
set(SPECDEC_KERNELS ${kernels} CACHE STRING "x86 kernels to compile: best, native or all")
set_property(CACHE SPECDEC_KERNELS PROPERTY STRINGS best native all)
if(NOT SPECDEC_KERNELS STREQUAL "all" AND NOT DEFINED SPECDEC_NATIVE_FEATURES)
  try_run(is_run is_compiled SOURCES "${CMAKE_CURRENT_LIST_DIR}/native_features.cpp"
          "${PROJECT_SOURCE_DIR}/cpp/base/cpu_features.cpp"
          "${PROJECT_SOURCE_DIR}/cpp/base/isa.cpp" CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${PROJECT_SOURCE_DIR}/cpp"
          COMPILE_OUTPUT_VARIABLE compiler_output RUN_OUTPUT_VARIABLE features CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON)
  if(NOT is_compiled OR NOT is_run EQUAL 0)
    message(FATAL_ERROR "the CPU's features cannot be detected (-DSPECDEC_KERNELS=all compiles kernels for all CPUs): "
      "${compiler_output}")
  endif()
  set(SPECDEC_NATIVE_FEATURES "${features}" CACHE INTERNAL "of this machine's CPU, in the words of gcc's -m options")
endif()

# Whether kernels with these flags are compiled.
function(specdec_wants_kernel result)  # FLAGS...
  set(${result} ON PARENT_SCOPE)
  foreach(flag IN LISTS ARGN)
    if(flag STREQUAL "avxvnni" AND NOT SPECDEC_COMPILER_HAS_AVX_VNNI)
      set(${result} OFF PARENT_SCOPE)
    elseif(SPECDEC_IS_X86 AND NOT SPECDEC_KERNELS STREQUAL "all" AND NOT flag IN_LIST SPECDEC_NATIVE_FEATURES)
      set(${result} OFF PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

# Adds SOURCE to TARGET, compiled for the instruction sets that FLAGS name (gcc's -m options without the -m), if its
# kernels are wanted. The target's own list of kernels (kernels.cpp, and no other file: compiler caches share the rest)
# then sees SPECDEC_HAS_NAME, where NAME is the file's in capitals. Of a family (FAMILY_ISA.cpp) the best ones come
# first.
function(specdec_kernel target source)  # FLAGS...
  specdec_wants_kernel(is_wanted ${ARGN})
  string(REGEX REPLACE "^(.*)_(avx[a-z0-9_]*|neon[a-z0-9_]*)\\.cpp$" "\\1" family "${source}")
  get_target_property(has_best ${target} SPECDEC_BEST_${family})
  if(NOT is_wanted OR (has_best AND SPECDEC_KERNELS STREQUAL "best" AND SPECDEC_IS_X86))
    return()
  endif()
  set_target_properties(${target} PROPERTIES SPECDEC_BEST_${family} ON)
  set(options "")
  foreach(flag IN LISTS ARGN)
    list(APPEND options "-m${flag}")
  endforeach()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND "avx512f" IN_LIST ARGN)
    # GCC's own AVX-512 headers trigger this warning (GCC bug 105593).
    list(APPEND options -Wno-maybe-uninitialized -Wno-uninitialized)
  endif()
  if(SPECDEC_SANITIZE)
    # Minutes for each file; the tests compare its results with the scalar file, which has them.
    list(APPEND options -fno-sanitize=all)
  endif()
  target_sources(${target} PRIVATE ${source})
  get_filename_component(name "${source}" NAME_WE)
  string(TOUPPER "${name}" name)
  set_property(SOURCE kernels.cpp APPEND PROPERTY COMPILE_DEFINITIONS SPECDEC_HAS_${name})
  set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${options}")
endfunction()
