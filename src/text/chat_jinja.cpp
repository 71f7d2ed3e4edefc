// The forms as Jinja templates.
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "text/chat_choice.h"

namespace zt::text {
namespace {

using Form = recipe::ChatTemplate;

// A Jinja string literal.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\\' || c == '\'') out += '\\';
    if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else
      out += c;
  }
  return out + "'";
}

// What comes before a template: `system` is the leading system message, `turns` what follows it.
std::string opening(const std::string& default_system) {
  return cat(
      "{%- if messages and messages[0]['role'] == 'system' -%}{%- set system = messages[0]['content'] -%}"
      "{%- set turns = messages[1:] -%}{%- else -%}{%- set system = ",
      quoted(default_system), " -%}{%- set turns = messages -%}{%- endif -%}");
}

// For forms in which a system message is a turn like others: only the default one is special.
std::string default_turn(const std::string& default_system) {
  if (default_system.empty()) return "";
  return cat("{%- if not messages or messages[0]['role'] != 'system' -%}{{- turn('system', ",
             quoted(default_system), ") -}}{%- endif -%}");
}

// A user turn is what lies between two answers: `ns.text` collects it, `ns.due` says that there is one.
constexpr const char* kCollect =
    "{%- if m['role'] == 'user' -%}"
    "{%- set ns.text = ns.text + ('\\n\\n' if ns.joint else '') + m['content'] -%}"
    "{%- set ns.due = true -%}{%- set ns.joint = true -%}"
    "{%- elif m['role'] != 'assistant' -%}{{- raise_exception('only user and assistant turns') -}}{%- endif "
    "-%}";

const std::string kLlama2 =
    cat("{%- set ns = namespace(text='', due=false, joint=false) -%}"
        "{%- if system -%}{%- set ns.text = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' -%}{%- set ns.due = "
        "true -%}"
        "{%- endif -%}"
        "{%- macro ask() -%}{{- bos_token + '[INST] ' + ns.text.strip() + ' [/INST]' -}}"
        "{%- set ns.text = '' -%}{%- set ns.due = false -%}{%- set ns.joint = false -%}{%- endmacro -%}"
        "{%- for m in turns -%}",
        kCollect,
        "{%- if m['role'] == 'assistant' -%}"
        "{%- if ns.due -%}{{- ask() -}}{%- elif loop.first -%}{{- bos_token -}}{%- endif -%}"
        "{{- ' ' + m['content'].strip() + ' ' + eos_token -}}{%- endif -%}{%- endfor -%}"
        "{%- if ns.due -%}{{- ask() -}}{%- endif -%}");

const std::string kLlama3 =
    "{%- macro turn(role, text) -%}"
    "{{- '<|start_header_id|>' + role + '<|end_header_id|>\\n\\n' + text.strip() + '<|eot_id|>' -}}{%- "
    "endmacro -%}";
const std::string kLlama3Turns =
    "{%- for m in messages -%}{{- turn('ipython' if m['role'] == 'tool' else m['role'], m['content']) -}}{%- "
    "endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}{%- endif "
    "-%}";

const std::string kChatml =
    "{%- macro turn(role, text) -%}{{- '<|im_start|>' + role + '\\n' + text + '<|im_end|>\\n' -}}{%- "
    "endmacro -%}";
const std::string kChatmlTurns =
    "{%- for m in messages -%}{{- turn(m['role'], m['content']) -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}";

// `from` is where the system text stands: at the first user turn, or the last.
std::string mistral(bool turn_tokens) {
  const std::string open = turn_tokens ? "[INST]" : "[INST] ", close = turn_tokens ? "[/INST]" : " [/INST]";
  return cat(
      "{%- set ns = namespace(text='', due=false, joint=false, holder=0) -%}",
      turn_tokens ? "{%- for m in turns -%}{%- if m['role'] == 'user' and (loop.first or "
                    "loop.previtem['role'] != 'user') -%}{%- set ns.holder = loop.index0 -%}{%- endif -%}{%- "
                    "endfor -%}"
                  : "",
      "{%- macro ask() -%}{{- '", open, "' + ns.text + '", close,
      "' -}}{%- set ns.text = '' -%}{%- set ns.due = false -%}{%- set ns.joint = false -%}{%- endmacro -%}"
      "{%- if system and (not turns or ns.holder == 0) -%}{%- set ns.text = system -%}{%- set ns.due = true "
      "-%}"
      "{%- set ns.joint = true -%}{%- endif -%}"
      "{%- for m in turns -%}{%- if system and loop.index0 == ns.holder and not loop.first -%}"
      "{%- set ns.text = system -%}{%- set ns.joint = true -%}{%- endif -%}",
      kCollect,
      "{%- if m['role'] == 'assistant' -%}{%- if ns.due -%}{{- ask() -}}{%- endif -%}"
      "{{- '",
      turn_tokens ? "" : " ",
      "' + m['content'] + eos_token -}}{%- endif -%}{%- endfor -%}"
      "{%- if ns.due -%}{{- ask() -}}{%- endif -%}");
}

const std::string kAlpaca =
    "{%- if not system -%}{%- set system = 'Below is an instruction that describes a task. Write a response "
    "that "
    "appropriately completes the request.' -%}{%- endif -%}"
    "{%- set ns = namespace(before=system + '\\n\\n') -%}"
    "{%- for m in turns -%}{%- if m['role'] == 'user' -%}"
    "{%- set ns.before = ns.before + '### Instruction:\\n' + m['content'] + '\\n\\n' -%}"
    "{%- if loop.last or loop.nextitem['role'] != 'user' -%}{{- ns.before + '### Response:\\n' -}}"
    "{%- set ns.before = '' -%}{%- endif -%}"
    "{%- elif m['role'] == 'assistant' -%}"
    "{%- if ns.before -%}{{- ns.before + '### Response:\\n' -}}{%- endif -%}"
    "{{- m['content'] + eos_token -}}{%- set ns.before = '\\n\\n' -%}"
    "{%- else -%}{{- raise_exception('only user and assistant turns') -}}{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt and ns.before -%}{{- ns.before + '### Response:\\n' -}}{%- endif -%}";

const std::string kVicuna = cat(
    "{%- if not system -%}{%- set system = 'A chat between a curious user and an artificial intelligence "
    "assistant. "
    "The assistant gives helpful, detailed, and polite answers to the user\\'s questions.' -%}{%- endif -%}"
    "{%- set ns = namespace(before=system + ' ', text='', due=false, joint=false) -%}"
    "{%- for m in turns -%}",
    kCollect,
    "{%- if m['role'] == 'assistant' -%}"
    "{{- ns.before + ('USER: ' + ns.text + ' ' if ns.due else '') + 'ASSISTANT: ' + m['content'] + eos_token "
    "-}}"
    "{%- set ns.before = '' -%}{%- set ns.text = '' -%}{%- set ns.due = false -%}{%- set ns.joint = false -%}"
    "{%- endif -%}{%- endfor -%}"
    "{%- if ns.due -%}{{- ns.before + 'USER: ' + ns.text -}}{%- set ns.before = ' ' -%}{%- endif -%}"
    "{%- if add_generation_prompt -%}{{- ns.before + 'ASSISTANT:' -}}{%- endif -%}");

std::string written(Form form, const std::string& default_system, bool turn_tokens) {
  switch (form) {
    case Form::llama2: return opening(default_system) + kLlama2;
    case Form::llama3: return "{{- bos_token -}}" + kLlama3 + default_turn(default_system) + kLlama3Turns;
    case Form::chatml: return kChatml + default_turn(default_system) + kChatmlTurns;
    case Form::mistral: return opening(default_system) + "{{- bos_token -}}" + mistral(turn_tokens);
    case Form::alpaca: return opening(default_system) + kAlpaca;
    case Form::vicuna: return opening(default_system) + kVicuna;
    case Form::none:
    case Form::automatic: break;
  }
  return "";
}

}  // namespace

std::string jinja_of(Form form, const std::string& default_system) {
  return written(form, default_system, false);
}

std::string jinja_of(const ChatTemplate& chat) {
  const std::string jinja = written(chat.form(), chat.default_system(), chat.tokens().turn_tokens);
  return jinja.empty() || !chat.adds_bos() ? jinja : "{{- bos_token -}}" + jinja;
}

}  // namespace zt::text
