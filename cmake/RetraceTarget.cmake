# retrace_target(<target>): what every target of ours is compiled with.
#
# Symbols stay visible. LibTorch's headers hold inline statics (type ids, registries) that must be one per process, and
# hiding them in our library or in a test would make them several.
function(retrace_target target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  # No <target>_EXPORTS: shared and static libraries are made of the same objects, and ccache need not keep two.
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON DEFINE_SYMBOL "")
  target_compile_options(${target} PRIVATE -Wall -Wextra)
  if(RETRACE_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  # A rebuilt value equals the original to the last bit, also where our own code computes it.
  target_compile_options(${target} PRIVATE -fno-fast-math -ffp-contract=off)
  # LibTorch is built with it, and its RecordFunction has another layout without.
  target_compile_definitions(${target} PRIVATE $<$<NOT:$<CONFIG:Release>>:NDEBUG>)
  if(RETRACE_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${RETRACE_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${RETRACE_SANITIZE})
    if(RETRACE_SANITIZE MATCHES undefined)
      # vptr would need the type information of LibTorch's classes, which LibTorch does not export.
      target_compile_options(${target} PRIVATE -fno-sanitize-recover=undefined -fno-sanitize=vptr)
    endif()
  endif()
endfunction()
