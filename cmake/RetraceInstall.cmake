# The install tree: headers, both libraries, and a package for find_package(retrace).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(retrace_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/retrace)

set_target_properties(retrace PROPERTIES INSTALL_RPATH "$ORIGIN")  # finds the plan library beside itself
install(TARGETS retrace retrace_plan EXPORT retraceTargets)
install(DIRECTORY include/retrace DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT retraceTargets NAMESPACE retrace:: DESTINATION ${retrace_package_dir})

configure_package_config_file(cmake/retraceConfig.cmake.in ${PROJECT_BINARY_DIR}/retraceConfig.cmake
                              INSTALL_DESTINATION ${retrace_package_dir})
# Before 1.0 a new minor version may break callers.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/retraceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/retraceConfig.cmake ${PROJECT_BINARY_DIR}/retraceConfigVersion.cmake
        DESTINATION ${retrace_package_dir})
