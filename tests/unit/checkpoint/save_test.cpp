// What saving does when things go wrong, what it removes, and what it costs.
#include "checkpoint/save.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <hdf5.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/rank_file.h"
#include "pretend.h"
#include "support/paths.h"

using namespace zt;
using namespace zt::checkpoint;
using namespace zt::test;
namespace fs = std::filesystem;
using comm::Communicator;

namespace {

// The errors of all ranks of a save in which `meddle` may change a rank's pieces before they are written.
std::vector<std::string> errors_of_save(const fs::path& folder, std::int64_t step, int ranks,
                                        const std::function<void(int, Share&)>& meddle) {
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  on_ranks(ranks, [&](Communicator& c) {
    Share share(c.rank(), c.size());
    Save save({folder, step, "run-1"}, bytes_of(share.pieces), c);
    meddle(c.rank(), share);
    save.write(share.pieces);
    try {
      save.commit(c, state_of(step, ranks), {});
    } catch (const Error& e) {
      errors[std::size_t(c.rank())] = cat(name(e.blame()), ": ", e.what());
    }
  });
  return errors;
}

void check_untouched(const fs::path& folder, std::int64_t step) {
  CHECK(names_in(folder) == std::vector<std::string>{fmt::format("step-{:08}", step)});
  CHECK(Checkpoint::open(folder / fmt::format("step-{:08}", step)).verify().empty());
}

// While it lives, files can't grow beyond `bytes`, as on a full disk.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_ = {};
};

// A field of /proc/self/status in KiB.
std::int64_t status_kib(const std::string& field) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(field + ":", 0) == 0) return std::stoll(line.substr(field.size() + 1));
  }
  return -1;
}

std::vector<std::int64_t> steps_in(const fs::path& folder) {
  std::vector<std::int64_t> out;
  for (const Listed& l : list(folder)) out.push_back(l.step);
  return out;
}

using Steps = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("save: until commit there is only a partial folder, afterwards only the whole one") {
  const ScratchDir scratch;
  on_ranks(3, [&](Communicator& c) {
    const Share share(c.rank(), c.size());
    Save save({scratch.path(), 5, "run-1"}, bytes_of(share.pieces), c);
    CHECK_FALSE(save.written());
    std::thread writer([&] { save.write(share.pieces); });
    writer.join();
    CHECK(save.written());
    c.barrier();
    if (c.rank() == 0) CHECK(names_in(scratch.path()) == std::vector<std::string>{"step-00000005.partial"});
    c.barrier();
    save.commit(c, state_of(5, 3), test::companion_files());
    CHECK(save.folder() == scratch.path() / "step-00000005");
    CHECK(Checkpoint::open(save.folder()).verify().empty());
  });
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"step-00000005"});
  CHECK(names_in(scratch.path() / "step-00000005") ==
        std::vector<std::string>{"hf", "manifest.json", "model.h5", "rank-00000-of-00003.h5",
                                 "rank-00001-of-00003.h5", "rank-00002-of-00003.h5"});
}

TEST_CASE("save: two saves of the same state have the same bytes") {
  const ScratchDir a, b;
  const fs::path first = save(a.path(), 7, 3), second = save(b.path(), 7, 3);
  for (const std::string& name : names_in(first)) {
    if (name != "hf") CHECK_MESSAGE(read_file(first / name) == read_file(second / name), name);
  }
}

TEST_CASE("save: a rank that fails makes all ranks fail with its cause, and the checkpoint before stays") {
  for (const int bad : {0, 1, 2}) {
    CAPTURE(bad);
    const ScratchDir scratch;
    save(scratch.path(), 4, 3);
    const auto errors = errors_of_save(scratch.path(), 8, 3, [&](int rank, Share&) {
      if (rank == bad)
        fs::create_directory(scratch.path() / "step-00000008.partial" / rank_file_name(bad, 3));
    });
    for (const std::string& error : errors) {
      CHECK_MESSAGE(says(error, cat("rank ", bad, ": cannot make ")), error);
      CHECK_MESSAGE(says(error, rank_file_name(bad, 3)), error);
      CHECK(error == errors[0]);
    }
    check_untouched(scratch.path(), 4);
  }
}

TEST_CASE("save: pieces that leave gaps, overlap, disagree or come twice commit nothing and are bugs") {
  struct Case {
    const char* says;
    std::function<void(int, Share&)> meddle;
  };
  const std::vector<Case> cases = {
      {"lacks elements [",
       [](int rank, Share& s) {
         if (rank == 1) s.pieces[0].count -= 1;
       }},
      {"overlap or are not in order",
       [](int rank, Share& s) {
         if (rank == 1) s.pieces[0].first -= 1;
       }},
      {"has shape [37, 11] and on rank 1 [11, 37]",
       [](int rank, Share& s) {
         if (rank == 1) s.pieces[0].shape = {11, 37};
       }},
      {"two pieces of one kind",
       [](int rank, Share& s) {
         if (rank == 1) s.pieces.push_back(s.pieces[0]);
       }},
      {"has one of the two moments",
       [](int, Share& s) {
         std::erase_if(s.pieces, [](const Piece& p) {
           return p.kind == Kind::second_moment && p.tensor == "h.0.conv.weight";
         });
       }},
      {"has no value",
       [](int, Share& s) { std::erase_if(s.pieces, [](const Piece& p) { return p.kind == Kind::value; }); }},
      {"is no piece of a tensor",
       [](int rank, Share& s) {
         if (rank == 1) s.pieces[0].tensor = "a/b";
       }},
      {"is no piece of a tensor",
       [](int rank, Share& s) {
         if (rank == 1) s.pieces[0].tensor = "..";
       }},
      {"is no piece of a tensor",
       [](int rank, Share& s) {
         if (rank == 1) s.pieces[0].count = 1000;
       }},
      {"is no piece of a tensor",
       [](int rank, Share& s) {
         if (rank == 1) s.pieces[0].data = nullptr;
       }},
  };
  for (const Case& c : cases) {
    CAPTURE(c.says);
    const ScratchDir scratch;
    save(scratch.path(), 4, 3);
    for (const std::string& error : errors_of_save(scratch.path(), 8, 3, c.meddle)) {
      CHECK_MESSAGE(says(error, c.says), error);
      CHECK_MESSAGE(starts_with(error, "a bug in zerotrain: "), error);
    }
    check_untouched(scratch.path(), 4);
  }
}

TEST_CASE("save: a disk too full for all ranks is an error with numbers before a byte is written") {
  const ScratchDir scratch;
  save(scratch.path(), 4, 1);
  std::vector<std::string> errors(3);
  on_ranks(3, [&](Communicator& c) {
    // Each rank's share alone might fit.
    const std::int64_t bytes = std::int64_t(fs::space(scratch.path()).available / 2);
    try {
      Save({scratch.path(), 8, "run-1"}, bytes, c);
    } catch (const Error& e) {
      CHECK(e.blame() == Blame::machine);
      errors[std::size_t(c.rank())] = e.what();
    }
  });
  for (const std::string& error : errors) {
    CHECK_MESSAGE(says(error, "is too full for a checkpoint: it takes "), error);
    CHECK(says(error, " over 3 ranks, and "));
    CHECK(says(error, "bytes) are free"));
    CHECK(says(error, "checkpoint.keep_last"));
    CHECK(error == errors[0]);
  }
  check_untouched(scratch.path(), 4);
}

TEST_CASE("save: a disk that fills while writing leaves the checkpoint before, whatever was under way") {
  for (const rlim_t limit : {100, 1000, 3000, 8000, 30000, 300000, 1200000}) {
    CAPTURE(limit);
    const ScratchDir scratch;
    save(scratch.path(), 4, 2);
    std::vector<std::string> errors(2);
    const std::vector<float> big(1 << 18, 1.5f);
    {
      on_ranks(2, [&](Communicator& c) {
        std::vector<Piece> pieces;
        if (c.rank() == 1)
          pieces = {{"w", {1 << 18}, Kind::value, 0, 1 << 18, big.data()},
                    {"b", {10}, Kind::value, 0, 10, big.data()}};
        Save save({scratch.path(), 8, "run-1"}, bytes_of(pieces), c);
        {
          c.barrier();
          static std::unique_ptr<SmallFiles> small;
          if (c.rank() == 0) small = std::make_unique<SmallFiles>(limit);
          c.barrier();
          save.write(pieces);
          c.barrier();
          if (c.rank() == 0) small.reset();
          c.barrier();
        }
        try {
          save.commit(c, state_of(8, 2), {});
        } catch (const Error& e) {
          errors[std::size_t(c.rank())] = cat(name(e.blame()), ": ", e.what());
        }
      });
    }
    if (limit < 1 << 20) {
      for (const std::string& error : errors) {
        // Below a kilobyte not even the other rank's empty file fits; then the cause is no one's in particular.
        CHECK_MESSAGE(
            starts_with(error, cat("memory or disk: ", limit < 1000 ? "" : "rank 1: ", "cannot write ")),
            error);
        CHECK_MESSAGE(says(error, ": File too large"), error);
        CHECK_MESSAGE(says(error, "is there space on the disk?"), error);
      }
      check_untouched(scratch.path(), 4);
    } else {
      CHECK(errors[0] == "");
    }
    // HDF5 has got over it.
    save(scratch.path(), 12, 2);
    CHECK(Checkpoint::open(scratch.path() / "step-00000012").verify().empty());
  }
}

TEST_CASE("save: what a killed save or removal left is not listed as good and removed by the next save") {
  const ScratchDir scratch;
  save(scratch.path(), 4, 2);
  fs::copy(scratch.path() / "step-00000004", scratch.path() / "step-00000008.partial",
           fs::copy_options::recursive);
  fs::copy(scratch.path() / "step-00000004", scratch.path() / "step-00000002.deleting",
           fs::copy_options::recursive);
  scratch.write("step-00000012.partial/rank-00000-of-00002.h5", "");
  scratch.write("notes.partial/mine.txt", "kept");
  scratch.write("step-9.partial/mine.txt", "kept");
  fs::create_directory_symlink(scratch.path() / "notes.partial", scratch.path() / "step-00000013.partial");
  for (const Listed& l : list(scratch.path())) CHECK(l.good() == (l.step == 4));
  save(scratch.path(), 8, 3);
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"notes.partial", "step-00000004",
                                                             "step-00000008", "step-00000013.partial",
                                                             "step-9.partial"});
  CHECK(fs::exists(scratch.path() / "notes.partial" / "mine.txt"));
  CHECK(Checkpoint::open(scratch.path() / "step-00000008").state().ranks == 3);
}

TEST_CASE("save: nothing is saved, kept or removed behind a link") {
  const ScratchDir scratch;
  save(scratch.path() / "others", 4, 1);
  save(scratch.path() / "others", 8, 1);
  scratch.write("others/step-00000012.partial/mine.txt", "kept");
  const auto before = names_in(scratch.path() / "others");
  const fs::path link = scratch.path() / "checkpoints";
  fs::create_directory_symlink("others", link);
  for (const Error& e :
       {error_of([&] { save(link, 16, 1); }), error_of([&] { retain(link, "run-1", 8, 1); })}) {
    CHECK(e.blame() == Blame::usage);
    CHECK(says(e.problem(), link.string() + " is a link; checkpoints are saved in a run's own folder only"));
  }
  CHECK(names_in(scratch.path() / "others") == before);

  // A step's folder that is a link is no checkpoint of the folder it is in, and clean-up leaves it and what it names.
  const fs::path own = scratch.path() / "own";
  for (const int step : {1, 2, 3}) save(own, step, 1);
  fs::create_directory_symlink("../others/step-00000004", own / "step-00000000");
  CHECK(retain(own, "run-1", 3, 1) == std::vector<std::int64_t>{1, 2});
  CHECK(names_in(own) == std::vector<std::string>{"step-00000000", "step-00000003"});
  CHECK(names_in(scratch.path() / "others") == before);
}

TEST_CASE("save: killed at any moment, the newest good checkpoint is whole and the next save works") {
  const ScratchDir scratch;
  save(scratch.path(), 1, 2);
  int whole = 0;
  for (int trial = 0; trial < 24; ++trial) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int step = 2;; ++step) {
        save(scratch.path(), 100 * trial + step, 2);
        retain(scratch.path(), "run-1", 100 * trial + step, 2);
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(8 + trial * 5));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    int good = 0;
    for (const Listed& l : list(scratch.path())) {
      if (!l.good()) continue;
      ++good;
      CHECK(Checkpoint::open(l.folder).verify().empty());
    }
    CHECK(good >= 1);
    whole += good;
  }
  CHECK(whole >= 24);
  save(scratch.path(), 5000, 1);
  for (const Listed& l : list(scratch.path())) CHECK(l.good());
}

TEST_CASE(
    "save: a checkpoint of the same step is replaced when it is this run's or broken, and kept when "
    "another's") {
  const ScratchDir scratch;
  save(scratch.path(), 4, 2);
  save(scratch.path(), 4, 3);
  CHECK(Checkpoint::open(scratch.path() / "step-00000004").state().ranks == 3);
  fs::remove(scratch.path() / "step-00000004" / "manifest.json");
  save(scratch.path(), 4, 1);
  check_untouched(scratch.path(), 4);
  const Error e = error_of([&] { save(scratch.path(), 4, 1, "run-2"); });
  CHECK(e.blame() == Blame::usage);
  CHECK_MESSAGE(says(e.what(), "is a checkpoint of another run (run-1); it is kept"), e.what());
  check_untouched(scratch.path(), 4);
}

TEST_CASE("retain: by number, only this run's, never the newest") {
  const ScratchDir scratch;
  for (const int step : {9, 10, 100}) save(scratch.path(), step, 1);
  CHECK(retain(scratch.path(), "run-1", 100, 2) == Steps{9});
  CHECK(steps_in(scratch.path()) == Steps{10, 100});

  save(scratch.path(), 5, 1, "run-2");
  save(scratch.path(), 200, 1, "run-2");
  scratch.write("step-00000007/manifest.json", "broken");
  scratch.write("step-00000300/mine.txt", "not a checkpoint");
  CHECK(retain(scratch.path(), "run-1", 100, 1) == Steps{10});
  CHECK(steps_in(scratch.path()) == Steps{5, 7, 100, 200, 300});

  // A run resumed from an older step: what it just saved stays though its number is low.
  save(scratch.path(), 50, 1);
  save(scratch.path(), 60, 1);
  CHECK(retain(scratch.path(), "run-1", 50, 2) == Steps{60});
  CHECK(steps_in(scratch.path()) == Steps{5, 7, 50, 100, 200, 300});
  CHECK(retain(scratch.path(), "run-1", 50, 0).empty());
  CHECK(retain(scratch.path(), "run-1", 50, 1) == Steps{100});
  CHECK(Checkpoint::open(scratch.path() / "step-00000050").verify().empty());
}

TEST_CASE("save: states of another step, run or number of ranks, and files with paths, are bugs") {
  for (const int which : {0, 1, 2, 3}) {
    const ScratchDir scratch;
    const Error e = error_of([&] {
      on_ranks(1, [&](Communicator& c) {
        const Share share(0, 1);
        Save save({scratch.path(), 5, "run-1"}, bytes_of(share.pieces), c);
        save.write(share.pieces);
        RunState state = state_of(which == 0 ? 6 : 5, which == 1 ? 2 : 1, which == 2 ? "other" : "run-1");
        save.commit(c, state, {{which == 3 ? "../config.json" : "config.json", "{}"}});
      });
    });
    CHECK(e.blame() == Blame::bug);
    CHECK(names_in(scratch.path()).empty());
  }
}

TEST_CASE("save: commit before write, and write twice, are bugs") {
  const ScratchDir scratch;
  on_ranks(2, [&](Communicator& c) {
    const Share share(c.rank(), 2);
    Save save({scratch.path(), 5, "run-1"}, 0, c);
    if (c.rank() == 0) save.write(share.pieces);
    const Error e = error_of([&] { save.commit(c, state_of(5, 2), {}); });
    CHECK_MESSAGE(says(e.what(), "rank 1: a checkpoint was committed before it was written"), e.what());
    Save again({scratch.path(), 5, "run-1"}, 0, c);
    again.write(share.pieces);
    if (c.rank() == 1) again.write(share.pieces);
    CHECK(says(error_of([&] { again.commit(c, state_of(5, 2), {}); }).what(),
               "rank 1: a checkpoint was written twice"));
  });
}

TEST_CASE("save: 200 MB are written with less than 16 MiB beside them") {
  const ScratchDir scratch;
  constexpr std::int64_t kRow = 1 << 20, kRows = 50;
  std::vector<float> data(std::size_t(kRow * kRows));
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = float(i % 1000003);
  on_ranks(1, [&](Communicator& c) {
    const std::vector<Piece> pieces = {{"w", {kRows, kRow}, Kind::value, 0, kRow * kRows, data.data()}};
    Save save({scratch.path(), 1, "run-1"}, bytes_of(pieces), c);
    std::ofstream("/proc/self/clear_refs") << "5";  // starts VmHWM anew
    const std::int64_t before = status_kib("VmRSS");
    save.write(pieces);
    save.commit(c, state_of(1, 1), {});
    const std::int64_t grown = status_kib("VmHWM") - before;
    MESSAGE("peak growth: ", grown, " KiB");
    CHECK(grown < 16 * 1024);
  });
  // Reading goes straight to where the numbers shall be.
  std::ofstream("/proc/self/clear_refs") << "5";
  const std::int64_t before = status_kib("VmRSS");
  const Checkpoint checkpoint = Checkpoint::open(scratch.path() / "step-00000001");
  std::fill(data.begin(), data.end(), 0.f);
  checkpoint.read("w", Kind::value, 0, data);
  CHECK(status_kib("VmHWM") - before < 16 * 1024);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < data.size(); ++i) wrong += std::size_t(data[i] != float(i % 1000003));
  CHECK(wrong == 0);
}

TEST_CASE("save: file systems without locks, and locks that others hold, are no hindrance") {
  const ScratchDir scratch;
  // HDF5 looks at its environment when it starts.
  ::setenv("HDF5_USE_FILE_LOCKING", "TRUE", 1);
  H5close();
  int held = -1;
  const auto errors = errors_of_save(scratch.path(), 8, 1, [&](int, Share&) {
    const fs::path file = scratch.path() / "step-00000008.partial" / rank_file_name(0, 1);
    std::ofstream(file) << "";
    held = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    REQUIRE(::flock(held, LOCK_EX | LOCK_NB) == 0);
  });
  CHECK(errors[0] == "");
  ::close(held);
  ::unsetenv("HDF5_USE_FILE_LOCKING");
  H5close();
}
