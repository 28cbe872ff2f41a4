#!/usr/bin/env bash
# beside.sh 'COMMAND' COMMAND...: run two commands side by side, of which the first is for bash.
#
# The second one's output is seen as it comes, the first one's when both are over. It fails where one of them does.
set -euo pipefail

said=$(mktemp)
set -m # a process group of its own, which ends as one
bash -c "$1" </dev/null >"$said" 2>&1 &
first=$!
set +m
trap 'kill -- "-$first" 2>/dev/null || true; rm -f "$said"' EXIT
shift

failed=0
"$@" || failed=$?
wait "$first" || failed=$?
cat "$said"
exit "$failed"
