# SPECDEC_BUILD: what `specdec --version` says of the sources: our commit, where they are in a repository, and
# llama.cpp's.
set(commit "")
find_package(Git QUIET)
if(GIT_FOUND AND EXISTS "${PROJECT_SOURCE_DIR}/.git")  # not of a repository around an unpacked source package
  execute_process(COMMAND "${GIT_EXECUTABLE}" -C "${PROJECT_SOURCE_DIR}" rev-parse --short=9 HEAD
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  # Every commit adds a line to this file.
  execute_process(
    COMMAND "${GIT_EXECUTABLE}" -C "${PROJECT_SOURCE_DIR}" rev-parse --path-format=absolute --git-path logs/HEAD
    OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(commit AND EXISTS "${head}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${head}")
  endif()
endif()

file(STRINGS "${PROJECT_SOURCE_DIR}/third_party/llama.cpp/fetch.py" pinned REGEX "^COMMIT = ")
string(REGEX REPLACE "^COMMIT = \"([^\"]*)\".*$" "\\1" llama_commit "${pinned}")
if(SPECDEC_LLAMA_CPP_DIR)
  set(llama_commit "of ${SPECDEC_LLAMA_CPP_DIR}")
endif()
set(SPECDEC_BUILD "llama.cpp ${llama_commit}, patched")
if(commit)
  set(SPECDEC_BUILD "commit ${commit}, ${SPECDEC_BUILD}")
endif()
