# cmake -P BuildOnce.cmake SOURCE BUILD TARGETS(a;b) OPTIONS...: configures and builds a project in a folder that several build
# trees share; one at a time, and an up-to-date one is left as it is.
set(source "${CMAKE_ARGV3}")
set(build "${CMAKE_ARGV4}")
set(targets "${CMAKE_ARGV5}")
set(options "")
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE 6 ${last})
  list(APPEND options "${CMAKE_ARGV${i}}")
endforeach()

file(MAKE_DIRECTORY "${build}")
file(LOCK "${build}/.lock" TIMEOUT 3600)
execute_process(COMMAND "${CMAKE_COMMAND}" -S "${source}" -B "${build}" ${options} --log-level=WARNING COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${build}" --target ${targets} COMMAND_ERROR_IS_FATAL ANY)
