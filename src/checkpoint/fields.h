// Members of a JSON object, read strictly: each is there, of its type and in its range, and there are no others.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "exchange/words.h"

namespace zt::checkpoint {

class Fields {
 public:
  // `where` is how faults call the object. Faults go to `faults`; values are left alone then.
  Fields(const nlohmann::json& object, std::string where, exchange::Faults& faults);

  void text(const char* key, std::string* value);
  void integer(const char* key, std::int64_t* value, std::int64_t low = 0,
               std::int64_t high = std::numeric_limits<std::int64_t>::max());
  void integer(const char* key, int* value, int low, int high);
  void positive(const char* key, double* value);
  void object(const char* key, nlohmann::json* value);
  // The member, or null (a fault unless `optional`); for members with a reader of their own.
  const nlohmann::json* member(const char* key, bool optional = false);
  // Members nobody has asked for are faults.
  void no_others() const;

 private:
  void wrong(const char* key, const std::string& must, const nlohmann::json& is);
  const nlohmann::json& object_;
  std::string where_;
  exchange::Faults& faults_;
  std::set<std::string, std::less<>> asked_;
};

// Whether a JSON number is a whole one that fits.
bool whole_number(const nlohmann::json& json, std::int64_t* value);

}  // namespace zt::checkpoint
