#!/usr/bin/env bash
# The program never starts a shell or another program: what files and recipes hold could end up in a command line.
# Usage: tests/no_shell_test.sh SOURCE_FOLDER PROGRAM
set -euo pipefail
cd "$1"
# Calls, not parts of names (default_system), comments, or a member of that name. It may start itself anew.
if found=$(grep -rnE '(^|[^A-Za-z0-9_])(std::)?(system|popen|execl|execlp|execle|execv|execvp|execvpe|execve|fexecve|posix_spawn|posix_spawnp|fork|vfork|wordexp)[[:space:]]*\(' \
    --include='*.cpp' --include='*.h' src | grep -vE '^[^:]*:[0-9]*:[[:space:]]*(//|system\(args\.)' |
    grep -vF '::execv("/proc/self/exe", argv)'); then
  echo "the program starts other programs:"; echo "$found"; exit 1
fi
# Nor does what was linked into it; libraries of the system answer for themselves.
if found=$(nm -D --undefined-only "$2" | grep -wE '(system|popen|execl[pe]?|execvpe?|execve|fexecve|posix_spawnp?|fork|vfork|wordexp)(@.*)?$'); then
  echo "the program links what starts other programs:"; echo "$found"; exit 1
fi
# HDF5 writes files; it opens none that somebody else could have made.
if found=$(grep -rnE '(^|[^A-Za-z0-9_])(H5Fopen|H5Fopen_async|H5Dread|H5Aread|H5Dopen2?|H5Aopen|H5Lget_val|H5Pset_external|H5Lcreate_external)[[:space:]]*\(' --include='*.cpp' --include='*.h' src); then
  echo "the program reads with HDF5 (docs/decisions/0027-hostile-files.md):"; echo "$found"; exit 1
fi
echo "no shell, no other program, no foreign file in HDF5"
