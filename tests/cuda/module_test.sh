#!/usr/bin/env bash
# The module takes from the program what it shares with it: every name of the project that it leaves open must be among
# those that the program exports. Usage: module_test.sh MODULE PROGRAM
set -euo pipefail
names() { nm -D "$1" "$2" | sed 's/@.*//' | awk '{print $NF}' | grep 2zt | sort -u; }
open=$(comm -23 <(names --undefined-only "$1") <(names --defined-only "$2"))
[[ -z $open ]] || { echo "the program does not export:"; c++filt <<<"$open"; exit 1; }
shared=$(names --undefined-only "$1" | wc -l)
((shared > 0)) || { echo "the module shares nothing with the program, not even its errors"; exit 1; }
nm -D --defined-only "$1" | grep -q ' T zerotrain_cuda_backend$' || { echo "the module offers no backend"; exit 1; }
