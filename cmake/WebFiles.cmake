# The chat page inside the program: every file of web/ becomes bytes of a generated source.

# orrery_web_files(TARGET): TARGET defines server::web_files() (src/server/web_files.hpp).
function(orrery_web_files target)
  set(folder ${CMAKE_SOURCE_DIR}/web)
  set(script ${CMAKE_SOURCE_DIR}/cmake/web_files_source.cmake)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/web_files_bytes.cpp)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*)
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${folder} -DOUT=${source} -P ${script}
    DEPENDS ${files} ${script} COMMENT "Chat page" VERBATIM)
  add_library(${target} STATIC ${source})
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/src)
endfunction()
