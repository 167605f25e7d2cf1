// The chat page: the files of web/, which the build puts into the program (cmake/WebFiles.cmake).
// They hold no secret and are served without an API key: a browser sends none with them, and the
// page asks its user for the key when the API wants one.
#pragma once

#include <span>
#include <string_view>

namespace orrery::server {

struct WebFile {
  std::string_view path;        // of the request: "/" is the page, all else lies under "/web/"
  std::string_view media_type;  // the value of Content-Type
  std::string_view etag;        // the value of ETag, quotes included; changes with the bytes
  std::string_view bytes;
};

// All of them, in order of their names.
std::span<const WebFile> web_files();

// The file of exactly this path, or null. The path is compared as it is, nothing is decoded and no
// disk is read, so no spelling of ".." can leave the table.
const WebFile* find_web_file(std::string_view path);

// Goes with each of them as Content-Security-Policy, beside "Cache-Control: no-cache" (asked for
// again with If-None-Match), "X-Content-Type-Options: nosniff" and "Referrer-Policy: no-referrer".
// Whatever a model writes, the page can load nothing from and send nothing to another host, and
// text cannot become markup.
inline constexpr std::string_view kWebContentPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

}  // namespace orrery::server
