// Shortcuts over simdjson's tree for .cc files that read a tokenizer's files. Included by those
// only.
#ifndef TANDEM_TEXT_JSON_ACCESS_H_
#define TANDEM_TEXT_JSON_ACCESS_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem::text::access {

// Each gives nothing where the element is no object, lacks the member or has another type there.
template <class Element>
std::optional<Element> Member(const Element& object, std::string_view key) {
  Element value;
  if (object[key].get(value)) return std::nullopt;
  return value;
}

template <class Element>
std::optional<std::string_view> Text(const Element& object, std::string_view key) {
  std::string_view value;
  if (object[key].get(value)) return std::nullopt;
  return value;
}

template <class Element>
std::optional<bool> Bool(const Element& object, std::string_view key) {
  bool value = false;
  if (object[key].get(value)) return std::nullopt;
  return value;
}

template <class Element>
std::optional<uint64_t> Uint(const Element& object, std::string_view key) {
  uint64_t value = 0;
  if (object[key].get(value)) return std::nullopt;
  return value;
}

}  // namespace tandem::text::access

#endif  // TANDEM_TEXT_JSON_ACCESS_H_
