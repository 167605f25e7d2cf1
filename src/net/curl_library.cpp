#include "net/curl_library.hpp"

#include <dlfcn.h>

namespace orrery::net {
namespace {

#ifdef __APPLE__
constexpr const char* kFile = "libcurl.4.dylib";
#else
constexpr const char* kFile = "libcurl.so.4";
#endif

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

bool open(CurlLibrary& curl) {
  void* library = dlopen(kFile, RTLD_LAZY | RTLD_LOCAL);
  return library != nullptr && find(library, "curl_global_init", curl.global_init) &&
         find(library, "curl_easy_init", curl.easy_init) &&
         find(library, "curl_easy_setopt", curl.easy_setopt) &&
         find(library, "curl_easy_perform", curl.easy_perform) &&
         find(library, "curl_easy_getinfo", curl.easy_getinfo) &&
         find(library, "curl_easy_strerror", curl.easy_strerror) &&
         find(library, "curl_easy_cleanup", curl.easy_cleanup) &&
         curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

}  // namespace

Result<const CurlLibrary*> curl_library() {
  static CurlLibrary curl;
  static const bool is_open = open(curl);
  if (is_open) return &curl;
  return fail("E_NETWORK", std::string(kFile) +
                               " cannot be used; install libcurl, or fetch the "
                               "file by other means");
}

}  // namespace orrery::net
