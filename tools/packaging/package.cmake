# What is installed and the .deb that CPack makes of it (`make package`).
set(WR_SYSCONFDIR /etc/warmroute)
install(FILES ${CMAKE_SOURCE_DIR}/config/routerConfiguration.yaml DESTINATION ${WR_SYSCONFDIR})
install(DIRECTORY DESTINATION ${WR_SYSCONFDIR}/resources)
install(FILES ${CMAKE_SOURCE_DIR}/config/resources.example.yaml DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(FILES ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_SOURCE_DIR}/docs/mock-engine.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(FILES ${CMAKE_SOURCE_DIR}/config/warmroute.service DESTINATION /lib/systemd/system)
install(FILES ${CMAKE_SOURCE_DIR}/config/warmroute.1 ${CMAKE_SOURCE_DIR}/config/mock-engine.1
  DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(CODE [[
  file(CREATE_LINK warmroute "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/bin/kthena-router" SYMBOLIC)
]])

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME warmroute)
set(CPACK_PACKAGE_VENDOR warmroute)
set(CPACK_PACKAGE_CONTACT "The warmroute authors <warmroute@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR OFF)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "ca-certificates")
set(CPACK_DEBIAN_PACKAGE_CONFLICTS kthena-router)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${CMAKE_SOURCE_DIR}/tools/packaging/conffiles
  ${CMAKE_SOURCE_DIR}/tools/packaging/postinst
  ${CMAKE_SOURCE_DIR}/tools/packaging/prerm
  ${CMAKE_SOURCE_DIR}/tools/packaging/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# `make package` builds the two programs, not the tests.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
include(CPack)
