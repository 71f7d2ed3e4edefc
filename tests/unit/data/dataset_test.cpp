#include "data/dataset.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "support/paths.h"

namespace zt::data {
namespace {

using Ids = std::vector<std::int32_t>;

// Documents of these sizes; token number k of all has the id k, so that every transition has its own name.
class Numbered {
 public:
  explicit Numbered(const std::vector<int>& sizes) {
    TokenFileWriter out(path(), 1 << 20);
    std::int32_t next = 0;
    for (const int size : sizes) {
      Ids ids;
      for (int i = 0; i < size; ++i) {
        if (i > 0) transitions.insert({next - 1, next});
        ids.push_back(next++);
      }
      out.add(ids);
      out.end_document();
    }
    out.finish();
  }
  std::filesystem::path path() const { return dir_.path() / "a.tokens"; }
  std::set<std::pair<std::int32_t, std::int32_t>> transitions;  // inside documents

 private:
  test::ScratchDir dir_;
};

const std::vector<std::vector<int>> kDocuments = {
    {},        {1},           {2},           {5},          {1, 1, 1},     {2, 2, 2, 2},
    {3, 1, 4}, {7, 2, 1, 30}, {16, 16, 16},  {0, 3, 0, 5}, {100},         {8, 9, 10, 1, 1, 1, 17},
    {1, 40},   {40, 1},       {4, 5, 4, 60}, {3, 3, 3, 3}, {15, 1, 1, 2}, {9, 9, 9, 9, 9, 9, 9, 9}};

std::unique_ptr<RowSet> text_rows(const std::filesystem::path& path, const std::string& name,
                                  std::int64_t length, bool packing) {
  return rows_of_text(std::make_shared<Documents>(std::vector{path}), name, length, packing);
}

std::multiset<std::pair<std::int32_t, std::int32_t>> trained(const exec::HostBatch& batch) {
  std::multiset<std::pair<std::int32_t, std::int32_t>> pairs;
  for (std::size_t i = 0; i < batch.tokens.size(); ++i)
    if (batch.targets[i] >= 0) pairs.insert({batch.tokens[i], batch.targets[i]});
  return pairs;
}

TEST_CASE("dataset: over all rows each step from a token to the next is trained exactly once") {
  for (const auto& sizes : kDocuments) {
    const Numbered text(sizes);
    for (const bool packing : {true, false}) {
      for (const std::int64_t length : {2, 3, 4, 5, 8, 16, 17, 64}) {
        CAPTURE(sizes.size());
        CAPTURE(packing);
        CAPTURE(length);
        const auto rows = text_rows(text.path(), "t", length, packing);
        const RowSet& data = *rows;
        std::multiset<std::pair<std::int32_t, std::int32_t>> all;
        std::set<std::string> names;
        for (std::int64_t r = 0; r < data.rows(); ++r) {
          const Row row = data.row(r);
          CHECK(std::int64_t(row.ids.size()) <= length);
          CHECK(row.labels == row.ids);
          CHECK(row.documents.front() == 0);
          CHECK(row.documents.back() == std::int32_t(row.ids.size()));
          CHECK(std::ranges::adjacent_find(row.documents, std::greater_equal()) == row.documents.end());
          if (!packing) CHECK(row.documents.size() == 2);
          CHECK(names.insert(row.id).second);
          const auto pairs = trained(make_batch({&row, 1}, 1, length));
          CHECK_FALSE(pairs.empty());
          all.insert(pairs.begin(), pairs.end());
        }
        CHECK(all == std::multiset<std::pair<std::int32_t, std::int32_t>>(text.transitions.begin(),
                                                                          text.transitions.end()));
      }
    }
  }
}

TEST_CASE("dataset: packing fills rows") {
  // 1,000 documents of 10: without packing 1,000 rows; with it a row of 64 holds 6 documents and a part.
  const Numbered text(std::vector<int>(1000, 10));
  CHECK(text_rows(text.path(), "t", 64, false)->rows() == 1000);
  const auto rows = text_rows(text.path(), "t", 64, true);
  const RowSet& packed = *rows;
  CHECK(packed.rows() <= 10000 / 62 + 1);
  for (std::int64_t r = 0; r + 1 < packed.rows(); ++r) CHECK(packed.row(r).ids.size() >= 63);
}

TEST_CASE("dataset: a row's name is that of its file, document and first token, and stays") {
  const Numbered text({3, 20, 5});
  const auto rows = text_rows(text.path(), "poems.txt", 8, false);
  const RowSet& data = *rows;
  std::vector<std::string> names;
  for (std::int64_t r = 0; r < data.rows(); ++r) names.push_back(data.row(r).id);
  CHECK(names == std::vector<std::string>{"poems.txt#0+0", "poems.txt#1+0", "poems.txt#1+7", "poems.txt#1+14",
                                          "poems.txt#2+0"});
  CHECK(text_rows(text.path(), "poems.txt", 8, false)->row(2).id == "poems.txt#1+7");
}

TEST_CASE("dataset: a length below 2 is refused instead of going on for ever") {
  const Numbered text({5});
  for (const std::int64_t length : {1, 0, -3})
    CHECK_THROWS_AS(text_rows(text.path(), "t", length, true), Error);
}

TEST_CASE("batch: rows lie one behind the other, positions restart, targets are the next label") {
  const Row a{"a", {5, 6, 7, 8, 9}, {5, 6, 7, 8, 9}, {0, 3, 5}};
  const Row b{"b", {1, 2}, {1, 2}, {0, 2}};
  const exec::HostBatch batch = make_batch(std::vector<Row>{a, b}, 3, 6);
  CHECK(batch.used() == 7);
  CHECK(batch.bounds == Ids{0, 3, 5, 7});
  CHECK(batch.tokens == Ids{5, 6, 7, 8, 9, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(batch.targets ==
        Ids{6, 7, -100, 9, -100, 2, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100});
  CHECK(batch.positions == Ids{0, 1, 2, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(batch.places == Ids{0, 1, 2, 3, 4, 6, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(batch.supervised() == 4);
}

TEST_CASE("batch: rows that have a number in the step get the places of that number") {
  const std::vector<Row> rows(2, Row{"r", {1, 2}, {1, 2}, {0, 2}});
  const std::vector<std::int64_t> numbers = {7, 2};
  const exec::HostBatch batch = make_batch(rows, 2, 3, numbers);
  CHECK(batch.places_of_step);
  CHECK(batch.places == Ids{21, 22, 6, 7, 0, 0});
  CHECK_FALSE(make_batch(rows, 2, 3).places_of_step);
  CHECK_THROWS_WITH_AS(make_batch(rows, 3, 3, std::span(numbers).first(1)), "2 rows have 1 numbers", Error);
}

TEST_CASE("batch: without rows, and behind the last one, nothing is used") {
  const exec::HostBatch none = make_batch({}, 2, 3);
  CHECK(none.used() == 0);
  CHECK(none.bounds == Ids{0});
  CHECK(none.tokens.size() == 6);
  CHECK(none.supervised() == 0);
}

TEST_CASE("batch: rows of 5 and 9 ids, 3 of them trained, fill 14 of 32 slots and supervise 3") {
  Row five{"five", {1, 2, 3, 4, 5}, {-100, -100, -100, -100, 5}, {0, 5}};
  Row nine{"nine", {1, 2, 3, 4, 5, 6, 7, 8, 9}, Ids(9, -100), {0, 9}};
  nine.labels[7] = 8;
  nine.labels[8] = 9;
  const exec::HostBatch batch = make_batch(std::vector<Row>{five, nine}, 2, 16);
  CHECK(batch.tokens.size() == 32);
  CHECK(batch.used() == 14);
  CHECK(batch.supervised() == 3);
}

TEST_CASE("batch: a label that is not trained is no target, and the first label of a document never is") {
  const Row row{"r", {5, 6, 7, 8}, {-100, 6, -100, 8}, {0, 4}};
  CHECK(make_batch({&row, 1}, 1, 4).targets == Ids{6, -100, 8, -100});
  const Row joint{"r", {5, 6, 7, 8}, {5, 6, 7, 8}, {0, 2, 4}};
  CHECK(make_batch({&joint, 1}, 1, 4).targets == Ids{6, -100, 8, -100});
}

TEST_CASE("batch: more rows or longer ones than it holds are a bug that says so") {
  const std::vector<Row> rows(3, Row{"r7", {1, 2, 3}, {1, 2, 3}, {0, 3}});
  CHECK_THROWS_WITH_AS(make_batch(rows, 2, 3), doctest::Contains("3 rows do not fit a batch of 2"), Error);
  CHECK_THROWS_WITH_AS(make_batch(rows, 3, 2), doctest::Contains("row r7 has 3 ids, more than 2"), Error);
}

}  // namespace
}  // namespace zt::data
