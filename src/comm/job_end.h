// The end of a job for a fault of one of its ranks: all ranks, the launcher's daemons and the launcher itself end, also
// where the launcher cannot reach some of them any more.
#pragma once

#include <cstdint>

#include "comm/ledger.h"

namespace zt::comm {

// A process, also after its number has been given to another one.
struct Process {
  int id = 0;
  std::int64_t started = 0;  // in the kernel's ticks since the machine started
};
// 0 in `id` when there is none of this number. Usable in signal handlers.
Process process_of(int id);
// Its state as in /proc/ID/stat: 'R', 'S', 'D', 'T' (stopped), 't' (stopped by a debugger); 0 when it is gone or only
// its status is left. Usable in signal handlers.
char state_of(const Process& process);
// mpirun, or its daemon on this node, that has started this process; none under other launchers.
Process find_launcher();

// Ends the job with this exit status and does not return. Everything is tried at once: MPI_Abort; after ten seconds
// this process ends by itself; a process of its own sees to it that this node's launcher ends too, because one that has
// lost a node waits for it forever. From any thread; a second call only waits for the end.
[[noreturn]] void end_job(int status);

// Which rank this process is, or the calling thread; of whom the words of a fatal end tell. Ledgers outlive them.
void this_process_is(int rank, const Ledger* ledger);
void this_thread_is(int rank, const Ledger* ledger);
// "rank 2, step 17 #43 `forward b3`: ", or "" where no rank is known. Usable in signal handlers. Returns the end of
// what was written.
char* write_self(char* to, char* end);

// Called first by end_job and last_words, async-signal-safe: tells the other ranks.
void tell_ends_to(void (*teller)(int status));
// This process is about to end by a signal or by _exit: tells the others. Async-signal-safe.
void last_words(int status);
// Whether the end of the job has begun, by this rank or, as far as is heard, by another one, which has told the cause.
bool job_is_ending();
void note_job_is_ending();
// True for the one caller in this process that may tell the cause; the end of the job has begun then. Async-signal-safe.
bool claim_the_word();

}  // namespace zt::comm
