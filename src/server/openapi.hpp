// The description of every route, as GET /openapi.json gives it: OpenAPI 3.1, kept by hand in
// openapi.json, which the build puts into the program (cmake/WebFiles.cmake). A test compares it
// with routes().
#pragma once

#include <string_view>

namespace orrery::server {

std::string_view openapi_document();

}  // namespace orrery::server
