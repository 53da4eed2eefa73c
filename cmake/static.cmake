# For a distribution that runs where nothing is installed (preset dist): gRPC, Protocol Buffers, abseil
# and whatever else the system has an archive of is linked from it. The other libraries are looked for in
# lib/dp beside bin/; scripts/dist puts them there. Only linking differs from other builds, no object.

# Called before any package is looked for.
macro(dp_prefer_archives)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
  # RPATH and not RUNPATH: it holds for what the libraries there need in their turn, too.
  set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib/dp")
  set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
  add_link_options(-Wl,--disable-new-dtags,--as-needed)
endmacro()

# Called when all are found: packages that name their shared libraries get the archives beside them.
function(dp_use_archives)
  get_directory_property(targets IMPORTED_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(NOT type MATCHES "SHARED_LIBRARY|UNKNOWN_LIBRARY")
      continue()
    endif()
    foreach(property IMPORTED_LOCATION IMPORTED_LOCATION_NONE)
      get_target_property(location ${target} ${property})
      string(REGEX REPLACE "\\.so[.0-9]*$" ".a" archive "${location}")
      if(location AND EXISTS "${archive}")
        set_target_properties(${target} PROPERTIES ${property} "${archive}")
      endif()
    endforeach()
  endforeach()
  # gRPC's package names this one by a flag.
  find_library(RE2_ARCHIVE libre2.a)
  if(TARGET re2::re2 AND RE2_ARCHIVE)
    set_target_properties(re2::re2 PROPERTIES INTERFACE_LINK_LIBRARIES ${RE2_ARCHIVE})
  endif()
endfunction()
