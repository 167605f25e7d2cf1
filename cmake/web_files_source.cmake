# cmake -DFOLDER=web -DOUT=FILE.cpp -P web_files_source.cmake: writes the source of the chat page.
cmake_policy(VERSION 3.25)

set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")

file(GLOB files RELATIVE ${FOLDER} ${FOLDER}/*)
list(SORT files)
set(table "")
foreach(file ${files})
  cmake_path(GET file EXTENSION LAST_ONLY extension)
  string(SUBSTRING "${extension}" 1 -1 extension)
  if(NOT DEFINED type_${extension})
    message(FATAL_ERROR "${FOLDER}/${file} has no media type in cmake/web_files_source.cmake")
  endif()
  if(file STREQUAL "index.html")
    set(path "/")
  else()
    set(path "/web/${file}")
  endif()
  file(SHA256 ${FOLDER}/${file} sum)
  string(SUBSTRING ${sum} 0 16 tag)
  file(SIZE ${FOLDER}/${file} size)
  file(READ ${FOLDER}/${file} hex HEX)
  string(REGEX REPLACE "(..)" "\\\\x\\1" text "${hex}")
  string(REPEAT "...." 32 line)
  string(REGEX REPLACE "(${line})" "\\1\"\n    \"" text "${text}")
  string(APPEND table "    {\"${path}\", \"${type_${extension}}\", \"\\\"${tag}\\\"\", {\n"
    "    \"${text}\", ${size}}},\n")
endforeach()

file(WRITE ${OUT} "// Made by cmake/web_files_source.cmake.
#include \"server/web_files.hpp\"

namespace orrery::server {
namespace {
constexpr WebFile kFiles[] = {
${table}};
}  // namespace

std::span<const WebFile> web_files() { return kFiles; }

}  // namespace orrery::server
")
