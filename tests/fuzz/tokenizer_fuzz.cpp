// Any bytes as the files of a tokenizer's folder. The first byte says which: a tokenizer.json (0), with
// tokenizer_config.json, special_tokens_map.json, added_tokens.json and config.json behind bytes 0xFF (1), vocab.json
// and merges.txt (2), tokenizer.model (3), with a tokenizer_config.json that the first part is (4).
#include "hostile.h"
#include "text/tokenizer.h"

using namespace zt;

namespace {

// A vocabulary is kept in two directions, as the file's text, and as ranks of merges.
constexpr fuzz::Bound kBound{8 << 20, 4096};

constexpr const char* kTexts[] = {"",
                                  "a",
                                  "Hello world, 123!",
                                  " \t\n",
                                  "\xC3\xA9\xE2\x96\x81\xF0\x9F\x99\x82 <s></s>",
                                  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};

void write_folder(unsigned choice, const std::string& bytes) {
  const fuzz::Folder& folder = fuzz::scratch();
  folder.clear();
  const auto write = [&](std::initializer_list<const char*> names) {
    const std::vector<std::string> parts = fuzz::parts(bytes, names.size());
    std::size_t i = 0;
    for (const char* const name : names)
      if (i < parts.size()) folder.write(name, parts[i++]);
  };
  switch (choice % 5) {
    case 0: return write({"tokenizer.json"});
    case 1:
      return write({"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                    "config.json"});
    case 2: return write({"vocab.json", "merges.txt", "tokenizer_config.json"});
    case 3: return write({"tokenizer.model"});
    case 4: return write({"tokenizer_config.json", "tokenizer.model"});
  }
}

// Errors of text are the data's; ids are in the vocabulary, and their text can be shown.
void use(const text::Tokenizer& tokenizer) {
  FUZZ_CHECK(tokenizer.vocabulary() > 0);
  for (const char* const text : kTexts) {
    for (const bool specials : {false, true}) {
      try {
        const auto ids = specials ? tokenizer.encode_with_specials(text) : tokenizer.encode(text);
        for (const std::int32_t id : ids) FUZZ_CHECK(id >= 0 && id < tokenizer.vocabulary());
        (void)tokenizer.decode(ids);
      } catch (const Error& e) {
        fuzz::check_error(e, Blame::data);
      }
    }
  }
  for (const auto& role : {tokenizer.bos(), tokenizer.eos(), tokenizer.pad()})
    FUZZ_CHECK(!role || (*role >= 0 && *role < tokenizer.vocabulary()));
  FUZZ_CHECK(!tokenizer.fingerprint().empty());
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto [choice, bytes] = fuzz::input_of(data, size);
  write_folder(choice, bytes);
  fuzz::survives(size, kBound, Blame::model, [] { use(*text::load_tokenizer(fuzz::scratch().path())); });
  return 0;
}
