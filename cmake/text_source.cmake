# cmake -DFILE=F -DNAME=N -DHEADER=H -DOUT=FILE.cpp -P text_source.cmake: writes the source of
# server::N(), which gives the bytes of F.
cmake_policy(VERSION 3.25)

file(SIZE ${FILE} size)
file(READ ${FILE} hex HEX)
string(REGEX REPLACE "(..)" "\\\\x\\1" text "${hex}")
string(REPEAT "...." 32 line)
string(REGEX REPLACE "(${line})" "\\1\"\n    \"" text "${text}")

file(WRITE ${OUT} "// Made by cmake/text_source.cmake.
#include \"${HEADER}\"

namespace orrery::server {

std::string_view ${NAME}() {
  return {
    \"${text}\", ${size}};
}

}  // namespace orrery::server
")
