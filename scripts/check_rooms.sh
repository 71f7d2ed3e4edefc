#!/usr/bin/env bash
# Checks that every #include "room/file.h" under src/ and cuda/ names the file's own room or one above it in src/ROOMS.txt.
# Usage: scripts/check_rooms.sh [PROJECT_DIR]
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"
declare -A place
order=0
while read -r room _; do
  place[$room]=$((order++))
done < <(grep '^[a-z]' src/ROOMS.txt)
faults=0
while IFS=: read -r file line text; do
  room=$(cut -d/ -f2 <<<"$file")
  used=$(sed -E 's/.*"([a-z]+)\/.*/\1/' <<<"$text")
  if [[ -z ${place[$room]:-} ]]; then
    echo "$file: room '$room' is not in src/ROOMS.txt"; faults=1
  elif [[ -z ${place[$used]:-} ]]; then
    echo "$file:$line: room '$used' is not in src/ROOMS.txt"; faults=1
  elif ((place[$used] > place[$room])); then
    echo "$file:$line: '$room' may not use '$used', which stands below it in src/ROOMS.txt"; faults=1
  fi
done < <(grep -rnE '^#include "[a-z]+/' src cuda --include='*.h' --include='*.cpp' --include='*.cu' || true)
((faults == 0)) && echo "rooms: every include points upwards"
exit $faults
