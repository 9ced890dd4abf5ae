# A target of other people's sources: without our warnings, without debug information, and not in the list that clang-tidy reads.
function(specdec_third_party target)
  target_compile_options(${target} PRIVATE -w -g0)
  set_target_properties(${target} PROPERTIES EXPORT_COMPILE_COMMANDS OFF)
endfunction()
