#!/usr/bin/env bash
# The crash demo: a step counts, server and worker are killed with signal 9, both come back, and no line is missing.
# `make demo` calls it. Everything lives in a temporary folder and on a free port; nothing is left behind.
set -euo pipefail

BOWLINE=$(realpath "${BOWLINE:-./target/release/bowline}")
LINES=24
DEADLINE=60 # seconds for any single wait; the whole takes about ten

home=$(mktemp -d)
server="" worker=""
# Killed and reaped: nothing of it runs on.
kill_hard() {
    kill -9 "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}
cleanup() {
    for pid in $server $worker; do kill_hard "$pid"; done
    rm -rf "$home"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
[ -t 1 ] && [ -z "${NO_COLOR:-}" ] || say() { printf '\n== %s\n' "$*"; }
fail() { printf 'demo: %s\n' "$*" >&2; sed 's/^/  | /' "$home"/*.err >&2; exit 1; }

# until_true WHAT COMMAND…: looks until the command succeeds.
until_true() {
    local what=$1 end=$((SECONDS + DEADLINE)); shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || fail "waited in vain: $what"
        sleep 0.05
    done
}

start_server() {
    : >"$home/server.out"
    "$BOWLINE" server --config "$home/server.yaml" >"$home/server.out" 2>>"$home/server.err" & server=$!
    until_true "the server is ready" grep -qx ready "$home/server.out"
    BOWLINE_SERVER=$(head -n 1 "$home/server.out"); BOWLINE_SERVER=${BOWLINE_SERVER%/}
    export BOWLINE_SERVER
}

# A worker needs a token on its first start only.
start_worker() {
    "$BOWLINE" worker --server "$BOWLINE_SERVER" --name demo --state "$home/worker" "$@" \
        >/dev/null 2>>"$home/worker.err" & worker=$!
}

stored() { "$BOWLINE" logs "$job" count; }
has_line() { stored | grep -qx "line $1"; }
progress() { tail -n 1 "$home/progress"; }
has_progress() { [ "$(progress)" -ge "$1" ]; }
step_is() { "$BOWLINE" job "$job" --json | grep -q "\"state\": *\"$1\""; }

export XDG_CONFIG_HOME="$home/config" NO_COLOR=1
unset BOWLINE_SERVER BOWLINE_TOKEN
mkdir "$home/tasks"
printf 'listen: 127.0.0.1:0\ndata: %s/data\ntasks: %s/tasks\n' "$home" "$home" >"$home/server.yaml"

say "Start a server and a worker, as two processes"
start_server
BOWLINE_TOKEN=$(cat "$home/data/admin.token"); export BOWLINE_TOKEN
# From now on at this address.
sed -i "s|127.0.0.1:0|${BOWLINE_SERVER#http://}|" "$home/server.yaml"
start_worker --enroll-token "$("$BOWLINE" token create --kind enroll --json | sed -n 's/.*"token": *"\([^"]*\)".*/\1/p')"
echo "server $server, worker $worker"

say "Run a job: it prints $LINES lines, four a second"
cat >"$home/count.yaml" <<TASK
name: count
steps:
  count:
    run: |
      for i in \$(seq 1 $LINES); do echo "line \$i"; echo \$i >> $home/progress; sleep 0.25; done
TASK
job=$("$BOWLINE" run "$home/count.yaml" --detach)
until_true "line 5 is stored" has_line 5
stored

say "kill -9 the server and the worker"
kill_hard "$server"; kill_hard "$worker"
server="" worker=""
here=$(progress)
echo "both are gone; the step is at line $here"

say "Wait: the step's own runner lives on, and writes to disk"
until_true "the step goes on" has_progress $((here + 8))
echo "the step is at line $(progress), and nobody watches"

say "Start both again"
start_server
start_worker
until_true "the step is found again" step_is running
echo "server $server, worker $worker: they found the step again, running"

say "Wait for the job's end"
"$BOWLINE" wait "$job" || fail "the job did not succeed"
until_true "the last line is stored" has_line "$LINES"

say "The whole log, as the server has it"
stored

say "Every line once?"
# What stands between dashes is the server's own remark on the outage.
stored | grep -v '^--- ' >"$home/got"
seq -f 'line %.0f' 1 "$LINES" >"$home/wanted"
diff "$home/wanted" "$home/got" || fail "lines are missing or doubled"
echo "yes: $LINES lines, in order, none missing, none doubled"
