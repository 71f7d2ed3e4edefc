// Where a stretch of text stands decides whether a tokenizer puts a space before it.
#pragma once

namespace zt::text {

enum class Place {
  start,         // nothing stands before it
  after_token,   // an added token of the same text stands before it
  continuation,  // other ids stand before it, and it goes on where their text ends
};

}  // namespace zt::text
