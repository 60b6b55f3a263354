// Any text may be called a chat template: compiling and rendering it ends, within its limits.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/chat_template.h"
#include "text/json.h"
#include "text/utf8.h"

namespace {

const tandem::text::RenderInput& Input() {
  static const tandem::text::RenderInput kInput = [] {
    using tandem::text::Value;
    tandem::text::RenderInput input;
    input.messages =
        tandem::text::ValueFromJson(
            R"([{"role":"system","content":"s"},{"role":"user","content":" hé \n"},)"
            R"({"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function",)"
            R"("function":{"name":"f","arguments":{"x":[1,2.5,null,true]}}}]},)"
            R"({"role":"tool","content":[{"type":"text","text":"t"}]}])")
            .value_or(Value());
    input.tools = input.messages;
    input.bos_token = "<s>";
    input.limits.steps = 20000;
    input.limits.memory_bytes = 1 << 20;
    input.limits.output_bytes = 1 << 20;
    return input;
  }();
  return kInput;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto compiled = tandem::text::ChatTemplate::Compile(text);
  if (!compiled) return 0;
  const auto rendered = compiled->Render(Input());
  if (rendered && !tandem::text::IsValidUtf8(*rendered)) __builtin_trap();
  return 0;
}
