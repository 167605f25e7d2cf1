# Files inside the program: every file of web/, and the description of the API, become bytes of
# generated sources.

# orrery_web_files(TARGET): TARGET defines server::web_files() (src/server/web_files.hpp) and
# server::openapi_document() (src/server/openapi.hpp).
function(orrery_web_files target)
  set(folder ${CMAKE_SOURCE_DIR}/web)
  set(script ${CMAKE_SOURCE_DIR}/cmake/web_files_source.cmake)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/web_files_bytes.cpp)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*)
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${folder} -DOUT=${source} -P ${script}
    DEPENDS ${files} ${script} COMMENT "Chat page" VERBATIM)
  set(document ${CMAKE_CURRENT_SOURCE_DIR}/server/openapi.json)
  set(document_script ${CMAKE_SOURCE_DIR}/cmake/text_source.cmake)
  set(document_source ${CMAKE_CURRENT_BINARY_DIR}/openapi_bytes.cpp)
  add_custom_command(OUTPUT ${document_source}
    COMMAND ${CMAKE_COMMAND} -DFILE=${document} -DOUT=${document_source} -DNAME=openapi_document
      -DHEADER=server/openapi.hpp -P ${document_script}
    DEPENDS ${document} ${document_script} COMMENT "Description of the API" VERBATIM)
  add_library(${target} STATIC ${source} ${document_source})
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/src)
endfunction()
