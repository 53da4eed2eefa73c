# Where `make install` and `make dist` put files. The usual variables choose: CMAKE_INSTALL_PREFIX,
# CMAKE_INSTALL_BINDIR, CMAKE_INSTALL_SYSCONFDIR and others (GNUInstallDirs), and DESTDIR.

if(NOT DP_WITH_GRPC)
  return()
endif()
include(GNUInstallDirs)

# Programs find their companions beside themselves.
install(TARGETS ${DP_PROGRAM_TARGETS} DESTINATION ${CMAKE_INSTALL_BINDIR})

# Units name programs and settings by full path: by default where these are installed. A packager may set
# other paths, as the tarball does, which is unpacked elsewhere than it was staged.
set(DP_UNIT_PROGRAMS "" CACHE PATH "Folder of the programs as units name it; empty: as installed")
set(DP_UNIT_CONFDIR "" CACHE PATH "Folder of the settings as units name it; empty: as installed")
set(DP_PROGRAMS ${DP_UNIT_PROGRAMS})
set(DP_CONFDIR ${DP_UNIT_CONFDIR})
if(NOT DP_PROGRAMS)
  set(DP_PROGRAMS ${CMAKE_INSTALL_FULL_BINDIR})
endif()
if(NOT DP_CONFDIR)
  set(DP_CONFDIR ${CMAKE_INSTALL_FULL_SYSCONFDIR}/dp)
endif()
set(systemd deploy/systemd)
foreach(unit dp-coordinator dp-firewall dp-worker)
  configure_file(${systemd}/${unit}.service.in ${CMAKE_BINARY_DIR}/systemd/${unit}.service @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/systemd/${unit}.service DESTINATION lib/systemd/system)
endforeach()
install(FILES ${systemd}/dp.sysusers DESTINATION lib/sysusers.d RENAME dp.conf)

install(FILES ${systemd}/coordinator.env ${systemd}/worker.env ${systemd}/dp-worker-users.conf
              ${systemd}/dp-worker-sandbox.conf ${systemd}/dp.nft
        DESTINATION ${CMAKE_INSTALL_DATADIR}/dp/systemd)
install(DIRECTORY deploy/kubernetes DESTINATION ${CMAKE_INSTALL_DATADIR}/dp)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DATADIR}/dp)
install(FILES README.md CHANGELOG.md ARCHITECTURE.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")

# dpctl writes its own completions.
foreach(shell bash zsh)
  add_custom_command(
    OUTPUT ${CMAKE_BINARY_DIR}/completions/dpctl.${shell}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/completions
    COMMAND dpctl completion ${shell} >${CMAKE_BINARY_DIR}/completions/dpctl.${shell}
    DEPENDS dpctl)
  list(APPEND completions ${CMAKE_BINARY_DIR}/completions/dpctl.${shell})
endforeach()
add_custom_target(completions ALL DEPENDS ${completions})
add_dependencies(programs completions)
install(FILES ${CMAKE_BINARY_DIR}/completions/dpctl.bash
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME dpctl)
install(FILES ${CMAKE_BINARY_DIR}/completions/dpctl.zsh
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _dpctl)
