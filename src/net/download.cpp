#include "net/download.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "net/curl_library.hpp"

namespace orrery::net {
namespace {

constexpr long kMaxRedirects = 10;
constexpr long kConnectSeconds = 20;
constexpr long kStallSeconds = 60;  // less than a kilobyte a second for so long ends the try

// One transfer.
class Curl {
 public:
  explicit Curl(const CurlLibrary& library)
      : library_(&library), handle_(library.easy_init(), library.easy_cleanup) {}
  explicit operator bool() const { return handle_ != nullptr; }
  template <class T>
  void set(CURLoption option, T value) const {
    library_->easy_setopt(handle_.get(), option, value);
  }
  CURLcode perform() const { return library_->easy_perform(handle_.get()); }
  // The status of the answer, 0 while there is none.
  long status() const {
    long status = 0;
    library_->easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status);
    return status;
  }
  const char* text_of(CURLcode code) const { return library_->easy_strerror(code); }

 private:
  const CurlLibrary* library_;
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> handle_;
};

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

bool is_loopback(std::string_view url) {
  for (const std::string_view host : {"http://127.0.0.1", "http://localhost", "http://[::1]"}) {
    if (!url.starts_with(host)) continue;
    const std::string_view rest = url.substr(host.size());
    return rest.empty() || rest[0] == ':' || rest[0] == '/';
  }
  return false;
}

Result<Curl> open_curl(const std::string& url, const std::string& bearer) {
  if (!url.starts_with("https://") && !is_loopback(url)) {
    return fail("E_URL", fmt::format("{}: an address must begin with https://", url));
  }
  ORRERY_TRY(const CurlLibrary* library, curl_library());
  Curl curl(*library);
  if (!curl) return fail("E_NETWORK", "the HTTP library could not be set up");
  curl.set(CURLOPT_URL, url.c_str());
  curl.set(CURLOPT_FOLLOWLOCATION, 1L);
  curl.set(CURLOPT_MAXREDIRS, kMaxRedirects);
  curl.set(CURLOPT_REDIR_PROTOCOLS_STR, is_loopback(url) ? "http,https" : "https");
  curl.set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl.set(CURLOPT_LOW_SPEED_LIMIT, 1024L);
  curl.set(CURLOPT_LOW_SPEED_TIME, kStallSeconds);
  curl.set(CURLOPT_NOSIGNAL, 1L);
  curl.set(CURLOPT_USERAGENT, "orrery");
  if (!bearer.empty()) {  // curl sends it to the first host alone, not to where that redirects
    curl.set(CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl.set(CURLOPT_XOAUTH2_BEARER, bearer.c_str());
  }
  return curl;
}

std::unexpected<Error> http_error(const std::string& url, long status) {
  const char* meaning = "the server refused";
  if (status == 401 || status == 403) meaning = "access needs a token (HF_TOKEN) or was denied";
  if (status == 404) meaning = "there is no such file";
  if (status == 429) meaning = "too many requests, try later";
  if (status >= 500) meaning = "the server has a fault, try later";
  return fail("E_HTTP", fmt::format("{}: HTTP status {}: {}", url, status, meaning));
}

// What a transfer that writes to a file needs to know.
struct Sink {
  const Curl* curl = nullptr;
  std::FILE* file = nullptr;
  std::uint64_t offset = 0;  // bytes that were there before
  bool checked = false;      // the status was looked at before the first byte
  bool refused = false;      // the status is no success: its body is not the file
  int disk_error = 0;
  const DownloadRequest* request = nullptr;
};

std::size_t write_file(char* data, std::size_t size, std::size_t count, void* user) {
  Sink& sink = *static_cast<Sink*>(user);
  if (!sink.checked) {
    const long status = sink.curl->status();
    sink.checked = true;
    sink.refused = status != 200 && status != 206;
    if (status == 200 && sink.offset != 0) {  // the server cannot resume: start over
      if (ftruncate(fileno(sink.file), 0) != 0) sink.disk_error = errno;
      sink.offset = 0;
    }
  }
  if (sink.refused || sink.disk_error != 0) return 0;
  const std::size_t written = std::fwrite(data, size, count, sink.file) * size;
  if (written != size * count) sink.disk_error = errno;
  return written;
}

int report_progress(void* user, curl_off_t total, curl_off_t now, curl_off_t, curl_off_t) {
  const Sink& sink = *static_cast<Sink*>(user);
  if (!sink.request->progress) return 0;
  const std::uint64_t all = total > 0 ? sink.offset + static_cast<std::uint64_t>(total) : 0;
  return sink.request->progress(sink.offset + static_cast<std::uint64_t>(now), all) ? 0 : 1;
}

Status transfer(const DownloadRequest& request, const std::string& part) {
  ORRERY_TRY(const Curl curl, open_curl(request.url, request.bearer));
  std::error_code ignored;
  const std::uintmax_t there = std::filesystem::file_size(part, ignored);
  Sink sink;
  sink.offset = ignored ? 0 : there;
  const File file(std::fopen(part.c_str(), "ab"));
  if (!file) return fail("E_DISK", fmt::format("{}: {}", part, std::strerror(errno)));
  sink.curl = &curl;
  sink.file = file.get();
  sink.request = &request;
  curl.set(CURLOPT_WRITEFUNCTION, write_file);
  curl.set(CURLOPT_WRITEDATA, &sink);
  curl.set(CURLOPT_XFERINFOFUNCTION, report_progress);
  curl.set(CURLOPT_XFERINFODATA, &sink);
  curl.set(CURLOPT_NOPROGRESS, 0L);
  // A plain Range: with curl's own resuming, a server that sends the whole file would be an error.
  const std::string range = std::to_string(sink.offset) + "-";
  if (sink.offset != 0) curl.set(CURLOPT_RANGE, range.c_str());
  const CURLcode code = curl.perform();
  const long status = curl.status();
  if (status == 416 && sink.offset != 0) return {};  // the part was whole already
  if (code == CURLE_ABORTED_BY_CALLBACK) return fail("E_CANCELLED", "the download was stopped");
  if (status >= 400 || sink.refused) return http_error(request.url, status);
  if (sink.disk_error != 0 || std::fflush(file.get()) != 0) {
    return fail("E_DISK", fmt::format("{}: {}", part, std::strerror(sink.disk_error)));
  }
  if (code != CURLE_OK) {
    return fail("E_NETWORK", fmt::format("{}: {}; run it again to go on from where it stopped",
                                         request.url, curl.text_of(code)));
  }
  return {};
}

// Makes the file durable, and drops it from memory: written in pieces it lies there in small pages.
// Read again through a mapping it gets huge ones, from which a model decodes up to a third faster.
Status settle(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rb"));
  if (!file || ::fsync(::fileno(file.get())) != 0) {
    return fail("E_DISK", fmt::format("{}: {}", path, std::strerror(errno)));
  }
  ::posix_fadvise(::fileno(file.get()), 0, 0, POSIX_FADV_DONTNEED);  // advice: may do nothing
  return {};
}

struct Text {
  std::string body;
  std::uint64_t limit = 0;
};

std::size_t write_text(char* data, std::size_t size, std::size_t count, void* user) {
  Text& text = *static_cast<Text*>(user);
  if (text.body.size() + size * count > text.limit) return 0;
  text.body.append(data, size * count);
  return size * count;
}

}  // namespace

Status download(const DownloadRequest& request) {
  const std::string part = request.target + ".part";
  ORRERY_TRY_VOID(transfer(request, part));
  std::error_code error;
  if (request.verify) {
    if (Status verified = request.verify(part); !verified) {
      std::filesystem::remove(part, error);
      return verified;
    }
  }
  ORRERY_TRY_VOID(settle(part));
  std::filesystem::rename(part, request.target, error);
  if (error) return fail("E_DISK", fmt::format("{}: {}", request.target, error.message()));
  return {};
}

Result<std::string> fetch(const std::string& url, const std::string& bearer, std::uint64_t limit) {
  ORRERY_TRY(const Curl curl, open_curl(url, bearer));
  Text text{{}, limit};
  curl.set(CURLOPT_WRITEFUNCTION, write_text);
  curl.set(CURLOPT_WRITEDATA, &text);
  const CURLcode code = curl.perform();
  const long status = curl.status();
  if (code == CURLE_WRITE_ERROR) {
    return fail("E_TOOBIG", fmt::format("{}: the answer is larger than {} bytes", url, limit));
  }
  if (code != CURLE_OK) {
    return fail("E_NETWORK", fmt::format("{}: {}", url, curl.text_of(code)));
  }
  if (status != 200) return http_error(url, status);
  return std::move(text.body);
}

}  // namespace orrery::net
