// libcurl, opened when something is fetched and not when the program starts: it and the thirty
// libraries that it needs take longer to load than all others together.
#pragma once

#include <curl/curl.h>

#include "base/result.hpp"

namespace orrery::net {

struct CurlLibrary {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_easy_init) easy_init = nullptr;
  decltype(&curl_easy_setopt) easy_setopt = nullptr;
  decltype(&curl_easy_perform) easy_perform = nullptr;
  decltype(&curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&curl_easy_strerror) easy_strerror = nullptr;
  decltype(&curl_easy_cleanup) easy_cleanup = nullptr;
};

// Set up, and for the life of the process. E_NETWORK where it is not installed. Any thread.
Result<const CurlLibrary*> curl_library();

}  // namespace orrery::net
