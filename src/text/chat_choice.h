// Which chat template a run uses, and whether a model's own Jinja template is one of them.
#pragma once

#include <optional>
#include <string>

#include "recipe/settings.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace zt::text {

// A named form that does what a Jinja template does.
struct KnownTemplate {
  recipe::ChatTemplate form = recipe::ChatTemplate::none;
  std::string default_system;  // what it says for conversations without a system message
  bool begins_with_bos = false;
};

// Renders probe conversations with the Jinja template and with each form the tokenizer has the tokens for, each up to
// where an answer would begin; equal texts in all probes are the same form. Spaces next to the marks of `mistral` don't
// count: its tokenizer puts them there in any case. Nothing where no form does the same; `why` then tells what came
// nearest, or why the template cannot be run. A template that writes today's date is none: it is another one every day.
std::optional<KnownTemplate> recognise(const std::string& jinja, const Tokenizer& tokenizer,
                                       std::string* why = nullptr);

// The chat template in a tokenizer's own files (chat_template.jinja, or tokenizer_config.json's chat_template, of a
// list of them the one named `default`); nothing where there is none. Throws Error(model) where it is no text.
std::optional<std::string> own_template(const Tokenizer& tokenizer);

// Whether a begin token goes in front of a document: the recipe's word, or with `auto` the tokenizer's own files'.
bool wants_bos(recipe::AddBos choice, const Tokenizer& tokenizer);

// The recipe's choice. `auto` is what the tokenizer's own template is in effect, and without one `fallback`. Throws
// Error(model) for an own template that is none of the forms, Error(usage) where there is neither.
ChatOptions choose_chat(recipe::ChatTemplate wanted, const std::optional<std::string>& system_prompt,
                        recipe::AddBos add_bos, const Tokenizer& tokenizer,
                        std::optional<recipe::ChatTemplate> fallback);

// The form as a Jinja template, for exported model folders; "" for `none`, which has no turns.
std::string jinja_of(recipe::ChatTemplate form, const std::string& default_system);
// With all that a run adds to the form: its begin token, and where its tokenizer has the marks as special tokens.
std::string jinja_of(const ChatTemplate& chat);

}  // namespace zt::text
