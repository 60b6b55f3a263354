#include "frontend/message_values.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::frontend {

using text::Value;
using wire::Json;

namespace {

const std::string& TextOf(const Json& part) {
  return part.IsString() ? part.AsString() : part.Find("text")->AsString();
}

// As the reference does: only type and text of a part reach the template.
Value TextPart(const std::string& text) {
  text::Dict part;
  part.Set("type", Value::String("text"));
  part.Set("text", Value::String(text));
  return Value::FromDict(std::move(part));
}

Value ContentValue(const Json& content, ContentForm form) {
  if (content.IsString())
    return form.wraps_strings ? Value::List({TextPart(content.AsString())})
                              : Value::String(content.AsString());
  if (!content.IsArray()) return Value::String("");
  if (form.keeps_parts) {
    std::vector<Value> parts;
    for (const Json& part : content.AsArray()) parts.push_back(TextPart(TextOf(part)));
    return Value::List(std::move(parts));
  }
  std::string text;
  for (const Json& part : content.AsArray()) {
    if (&part != &content.AsArray().front()) text.push_back('\n');
    text += TextOf(part);
  }
  return Value::String(std::move(text));
}

// Clients send the arguments of a tool call as JSON text; templates want the object.
Value ToolCallValue(const Json& call) {
  text::Dict out;
  for (const Json::Member& member : call.AsObject()) {
    if (member.key != "function" || !member.value.IsObject()) {
      out.Set(member.key, ToValue(member.value));
      continue;
    }
    text::Dict function;
    for (const Json::Member& part : member.value.AsObject()) {
      Value value = ToValue(part.value);
      if (part.key == "arguments" && part.value.IsString()) {
        const auto arguments = wire::ParseJson(
            part.value.AsString().empty() ? std::string_view("{}") : part.value.AsString());
        if (arguments) value = ToValue(*arguments);
      }
      function.Set(part.key, std::move(value));
    }
    out.Set(member.key, Value::FromDict(std::move(function)));
  }
  return Value::FromDict(std::move(out));
}

Value MessageValue(const Json& message, ContentForm form) {
  text::Dict out;
  bool has_content = false;
  for (const Json::Member& member : message.AsObject()) {
    if (member.key == "content") {
      has_content = true;
      static const Value kContent = Value::String("content");
      out.Set(kContent, ContentValue(member.value, form));
    } else if (member.key == "role") {
      static const Value kRole = Value::String("role");
      out.Set(kRole, ToValue(member.value));
    } else if (member.key == "tool_calls" && member.value.IsArray()) {
      std::vector<Value> calls;
      for (const Json& call : member.value.AsArray()) calls.push_back(ToolCallValue(call));
      out.Set(member.key, Value::List(std::move(calls)));
    } else {
      out.Set(member.key, ToValue(member.value));
    }
  }
  if (!has_content) out.Set("content", Value::String(""));
  return Value::FromDict(std::move(out));
}

}  // namespace

Value ToValue(const Json& json) {
  switch (json.type()) {
    case Json::Type::kNull:
      return Value::None();
    case Json::Type::kBool:
      return Value::Bool(json.AsBool());
    case Json::Type::kInt:
      return Value::Int(json.AsInt());
    case Json::Type::kUint:
    case Json::Type::kDouble:
      return Value::Float(json.AsDouble());
    case Json::Type::kString:
      return Value::String(json.AsString());
    case Json::Type::kArray: {
      std::vector<Value> items;
      items.reserve(json.AsArray().size());
      for (const Json& element : json.AsArray()) items.push_back(ToValue(element));
      return Value::List(std::move(items));
    }
    case Json::Type::kObject: {
      text::Dict dict;
      for (const Json::Member& member : json.AsObject())
        dict.Set(member.key, ToValue(member.value));
      return Value::FromDict(std::move(dict));
    }
  }
  return Value::None();
}

Value MessagesValue(const Json& messages, ContentForm form) {
  std::vector<Value> values;
  values.reserve(messages.AsArray().size());
  for (const Json& message : messages.AsArray()) values.push_back(MessageValue(message, form));
  return Value::List(std::move(values));
}

}  // namespace tandem::frontend
