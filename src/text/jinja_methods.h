// Methods of str, dict, list and tuple that filters use too.
#pragma once

#include <string>

#include "text/jinja_value.h"

namespace zt::text::jinja {

// Upper and lower case of ASCII; other text is refused, as Unicode's cases need its tables.
std::string to_upper(Machine& m, std::string text);
std::string to_lower(Machine& m, std::string text);
std::string capitalized(Machine& m, const std::string& text);

// str.strip with `characters`, or with white space where absent or none.
enum class Ends { both, left, right };
std::string stripped(Machine& m, const std::string& text, const Value& characters, Ends ends);
// str.replace; `count` absent or none: everywhere.
std::string replaced(Machine& m, const std::string& text, const std::string& old, const std::string& by,
                     const Value& count);
std::string joined(Machine& m, const std::string& separator, const Items& parts);

// The text of an argument; other kinds are refused.
const std::string& require_text(Machine& m, const Value& value, const char* what);
std::int64_t require_whole(Machine& m, const Value& value, const char* what);
// dict.items() and its like.
Items pairs_of(Machine& m, const Value& dict);

}  // namespace zt::text::jinja
