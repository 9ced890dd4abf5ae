# Compiler flags of the instruction sets that kernels are compiled for; cpp/base/isa.cpp detects which ones the CPU can run.
include(CheckCXXCompilerFlag)

set(SPECDEC_IS_X86 OFF)
set(SPECDEC_IS_ARM OFF)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(SPECDEC_IS_X86 ON)
  check_cxx_compiler_flag(-mavxvnni SPECDEC_COMPILER_HAS_AVX_VNNI)  # GCC 11, Clang 12
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
  set(SPECDEC_IS_ARM ON)
endif()

# Adds SOURCE to TARGET, compiled for the instruction sets that FLAGS name (gcc's -m options without the -m).
function(specdec_kernel target source)  # FLAGS...
  set(options "")
  foreach(flag IN LISTS ARGN)
    list(APPEND options "-m${flag}")
  endforeach()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND "avx512f" IN_LIST ARGN)
    # GCC's own AVX-512 headers trigger this warning (GCC bug 105593).
    list(APPEND options -Wno-maybe-uninitialized -Wno-uninitialized)
  endif()
  if(SPECDEC_SANITIZE)
    list(APPEND options -fno-sanitize=all)  # minutes for each file; the tests compare its results with the scalar file, which has them
  endif()
  target_sources(${target} PRIVATE ${source})
  set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${options}")
endfunction()
