// A long row of measurements, thinned while it is read: bounded memory, and nothing high or low is lost.
#pragma once

#include <cstdint>
#include <vector>

namespace zt::report {

// Neighbouring steps, in one column of a picture.
struct Bin {
  double steps = 0, sum = 0;  // sums of step numbers and of values
  double min = 0, max = 0;
  std::int64_t count = 0;
  double step() const { return steps / static_cast<double>(count); }
  double mean() const { return sum / static_cast<double>(count); }
};

// Holds every value while there are at most `most` steps from the first to the last; then columns of 2, 4, 8 ... steps.
class Curve {
 public:
  explicit Curve(int most = 1024) : most_(most) {}

  // Steps may come in any order. What is not finite is counted and not drawn.
  void add(std::int64_t step, double value);

  bool empty() const { return count_ == 0; }
  std::int64_t count() const { return count_; }
  std::int64_t not_finite() const { return not_finite_; }
  std::int64_t width() const { return width_; }  // steps in a column
  double min() const { return min_; }
  double max() const { return max_; }
  // Of the highest step.
  double last() const { return last_; }
  std::int64_t last_step() const { return last_step_; }
  // Columns with values, by rising step.
  std::vector<Bin> bins() const;
  // The same in at most so many columns.
  std::vector<Bin> bins(int most) const;

 private:
  void make_room(std::int64_t step);

  int most_;
  std::int64_t first_ = 0, width_ = 1;
  std::vector<Bin> bins_;
  std::int64_t count_ = 0, not_finite_ = 0, last_step_ = 0;
  double min_ = 0, max_ = 0, last_ = 0;
};

}  // namespace zt::report
