// What HTTP server and client share: headers and targets.
#ifndef TANDEM_NET_HTTP_MESSAGE_H_
#define TANDEM_NET_HTTP_MESSAGE_H_

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::net {

// In order of arrival; names compare without case.
class HttpHeaders {
 public:
  HttpHeaders() = default;
  HttpHeaders(std::initializer_list<std::pair<std::string, std::string>> fields)
      : fields_(fields) {}
  void Reserve(size_t fields) { fields_.reserve(fields); }
  void Add(std::string name, std::string value) {
    fields_.emplace_back(std::move(name), std::move(value));
  }
  // The first field of that name. A view into this object.
  std::optional<std::string_view> Find(std::string_view name) const;
  const std::vector<std::pair<std::string, std::string>>& fields() const { return fields_; }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

// ASCII letters compare without case.
bool EqualsIgnoreCase(std::string_view a, std::string_view b);

// The reason phrase of a status code: 404 -> "Not Found".
std::string_view HttpReason(int status);

// "a%20b" -> "a b"; a stray % stays as it is.
std::string PercentDecode(std::string_view text);

}  // namespace tandem::net

#endif  // TANDEM_NET_HTTP_MESSAGE_H_
