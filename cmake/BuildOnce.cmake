# cmake -P BuildOnce.cmake SOURCE BUILD TARGETS(a;b) FILES(c;d) OPTIONS...: configures and builds a project in a folder
# shared by several build trees, one at a time. A complete build that has all FILES is not touched, even if a tree has
# another cmake or ninja: the folder's name contains the hash of its sources.
set(source "${CMAKE_ARGV3}")
set(build "${CMAKE_ARGV4}")
set(targets "${CMAKE_ARGV5}")
set(files "${CMAKE_ARGV6}")
set(options "")
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE 7 ${last})
  list(APPEND options "${CMAKE_ARGV${i}}")
endforeach()

# Inputs of the build that are not in BUILD's name: these options, without paths into the build trees' sources, and
# SOURCE's own top-level files.
set(recipe "${targets};${options}")
list(FILTER recipe EXCLUDE REGEX "^-DCMAKE_(MAKE_PROGRAM|PROJECT_[A-Za-z_.]*INCLUDE)=")
file(GLOB own_files "${source}/*.txt" "${source}/*.cpp")
foreach(file IN LISTS own_files)
  file(MD5 "${file}" hash)
  list(APPEND recipe "${hash}")
endforeach()

file(MAKE_DIRECTORY "${build}")
file(LOCK "${build}/.lock" TIMEOUT 3600)
set(is_complete OFF)
if(EXISTS "${build}/.complete")
  file(READ "${build}/.complete" complete)
  if(complete STREQUAL recipe)
    set(is_complete ON)
  endif()
endif()
foreach(file IN LISTS files)
  if(NOT EXISTS "${file}")  # deleted, or not all was copied
    set(is_complete OFF)
  endif()
endforeach()
if(is_complete)
  return()
endif()
# The cache names the source tree, which may be another one's.
file(REMOVE "${build}/.complete" "${build}/CMakeCache.txt")
execute_process(COMMAND "${CMAKE_COMMAND}" -S "${source}" -B "${build}" ${options} --log-level=WARNING
  COMMAND_ERROR_IS_FATAL ANY)
# Its name in front of ninja's count, since the build that waits for it has its own.
get_filename_component(name "${source}" NAME)
string(REGEX REPLACE "-.*" "" name "${name}")
if(DEFINED ENV{NINJA_STATUS})
  set(ENV{NINJA_STATUS} "${name} $ENV{NINJA_STATUS}")
else()
  set(ENV{NINJA_STATUS} "${name} [%f/%t] ")
endif()
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${build}" --target ${targets} COMMAND_ERROR_IS_FATAL ANY)
file(WRITE "${build}/.complete" "${recipe}")
