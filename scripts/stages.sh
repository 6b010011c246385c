# SPDX-License-Identifier: Apache-2.0
# Shell functions of ./quickstart and scripts/check-long: named stages with a log each, lanes of stages that run
# side by side, progress, and the count of test results. Sourced with the source folder as working directory.

build=$PWD/_build
logs=$build/logs
lane= # the lane that this process runs
passed=0 failed=0 skipped=0 failures=()
compiler_prefix=
find_ccache() { if command -v ccache >/dev/null; then compiler_prefix="ccache "; fi; }
find_ccache
# ccache takes the compiler's list of headers, instead of preprocessing each file itself.
export CCACHE_DEPEND=1
# libtool is a shell script, which dash runs in half of bash's time. Make and the test driver use
# the same shell.
if [ -x /bin/dash ]; then export CONFIG_SHELL=/bin/dash; fi

say() { printf '%s\n' "$*"; }
die() { printf 'quickstart: %s\n' "$*" >&2; exit 1; }

# The job server of GNU make, for all stages together: a pipe with a token for each process that may build or test. A
# stage holds one token while its command runs; make takes more tokens if they are free. The pipe has two tokens more than
# the machine has processors, because tests wait for other processes and timers, and the packages for the network and the
# disk.
open_job_server() {
  local pipe=$logs/jobs job
  mkdir -p "$logs"
  rm -f "$pipe" "$logs"/*.status
  mkfifo "$pipe"
  # make sets its descriptor to non-blocking mode; the stages use another descriptor.
  exec {make_jobs}<>"$pipe" {stage_jobs}<>"$pipe"
  rm "$pipe"
  for ((job = 0; job < $(nproc) + 2; job++)); do printf + >&"$stage_jobs"; done
  export MAKEFLAGS="-j --jobserver-auth=$make_jobs,$make_jobs"
}

# run_stage NAME COMMAND...: runs the command with its output in _build/logs/NAME.log. At its end NAME.took has its
# times, and NAME.status its exit status.
run_stage() {
  local name=$1 status=0 TIMEFORMAT='%R %U %S'
  shift
  read -r -N 1 -u "$stage_jobs"
  { time (exec {stage_jobs}>&-; "$@" >"$logs/$name.log" 2>&1 </dev/null); } 2>"$logs/$name.took" || status=$?
  printf + >&"$stage_jobs"
  echo "$status" >"$logs/$name.status"
}

# stage NAME COMMAND...: runs the command, and prints its progress every 20 s. On failure it shows the failed tests, or
# the end of the log, and returns 1.
stage() {
  local name=$1 log=$logs/$1.log status took
  say "==> $name"
  : >"$log"
  if [ -n "$lane" ]; then
    echo "$name" >"$logs/$lane.at"
    run_stage "$@"
  else
    run_stage "$@" &
    watch $! say_where "$name"
  fi
  status=$(cat "$logs/$name.status" 2>/dev/null) || status=killed
  took=$(awk '{ printf "%d s, %d s on processors", $1, $2 + $3 }' "$logs/$name.took")
  if [ "$status" = 0 ]; then
    say "    done in $took"
    return 0
  fi
  say "    FAILED after $took (exit $status); from $log:"
  grep -E '^(FAIL|ERROR|not ok)|error:|\*\*\*' "$log" | head -n 30 | sed 's/^/    ! /' || true
  if grep -qE '^(FAIL|ERROR): ' "$log"; then
    show_failed_tests "$log"
  else
    tail -n 40 "$log" | sed 's/^/    | /'
  fi
  return 1
}

# watch PROCESS COMMAND...: waits for the end of the process, and runs the command every 20 s meanwhile.
watch() {
  local pid=$1 ticks=0
  shift
  while kill -0 "$pid" 2>/dev/null; do
    sleep 1
    ticks=$((ticks + 1))
    if ((ticks % 20 == 0)); then "$@"; fi
  done
  wait "$pid"
}

# say_where STAGE: prints the run time of quickstart, and the last line of the stage's log.
say_where() { say "    $SECONDS s: $1: $(tail -n 1 "$logs/$1.log" | cut -c 1-90)"; }

# lanes LANE...: runs functions side by side; each function runs stages. The output of a lane is printed in one piece,
# in the given order.
lanes() {
  local name pids=() index=0
  # Background processes ignore the keyboard's interrupt signal.
  trap 'trap "" TERM; kill 0; exit 130' INT
  for name; do
    rm -f "$logs/$name.at" "$logs/$name.results"
    run_lane "$name" >"$logs/$name.lane" 2>&1 &
    pids+=($!)
  done
  for name; do
    watch "${pids[index]}" say_where_lanes "$@" || true
    cat "$logs/$name.lane"
    add_results "$name"
    index=$((index + 1))
  done
  trap - INT
}

# run_lane LANE: runs a lane in a separate process, and leaves its results in a file.
run_lane() {
  lane=$1 passed=0 failed=0 skipped=0 failures=()
  "$lane"
  printf '%s\n' "$passed $failed $skipped" ${failures[@]+"${failures[@]}"} >"$logs/$lane.results"
}

add_results() {
  local p=0 f=1 s=0 lines=("$1 ended early; see $logs/$1.lane")
  if [ -e "$logs/$1.results" ]; then
    { read -r p f s && mapfile -t lines; } <"$logs/$1.results"
  fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s)) failures+=("${lines[@]}")
}

say_where_lanes() {
  local name
  for name; do
    if [ -e "$logs/$name.at" ] && [ ! -e "$logs/$name.results" ]; then say_where "$(cat "$logs/$name.at")"; fi
  done
}

# succeeded STAGE: waits until a stage of another lane has ended, and succeeds if the stage succeeded.
succeeded() {
  until [ -e "$logs/$1.status" ]; do sleep 1; done
  [ "$(cat "$logs/$1.status")" = 0 ]
}

# show_failed_tests LOG: shows the messages of the first failed programs of a `make check`, or the end of the log if
# their logs are missing or have no message.
show_failed_tests() {
  local folder said
  folder=$(sed -n "s/^make: Entering directory '\(.*\)'/\1/p" "$1" | head -n 1)
  said=$(sed -nE 's/^(FAIL|ERROR): ([^ ]+).*/\2/p' "$1" | sort -u | head -n 4 |
    while read -r program; do
      if text=$(grep -sE -B 5 -A 35 -m 1 '^not ok|^Bail out|Sanitizer: |runtime error: ' \
        "$folder/${program%.sh}.log"); then
        printf '%s:\n%s\n' "$program" "$text"
      fi
    done)
  if [ -n "$said" ]; then printf '%s\n' "$said"; else tail -n 40 "$1"; fi | sed 's/^/    | /'
}

# count LOG: adds the results in a log, as automake's test summaries or as bare TAP lines.
count() {
  local sums
  sums=$(awk '
    /^# (PASS|XFAIL): / { passed += $3 }
    /^# (FAIL|XPASS|ERROR): / { failed += $3 }
    /^# SKIP: / { skipped += $3 }
    /^ok / { if (/# SKIP/) skipped++; else passed++ }
    /^not ok / { failed++ }
    END { print passed + 0, failed + 0, skipped + 0 }' "$logs/$1.log")
  read -r p f s <<<"$sums"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# show_skips LOG: prints the skipped tests; tests of one program with one reason share a line.
show_skips() {
  sed -nE -e 's/^SKIP: ([^ ]+) [0-9]+ (- )?(.*) # SKIP (.*)/\1\t\3\t\4/p' \
    -e 's/^SKIP: ([^ ]+)$/\1\tall\tits log says why/p' \
    -e 's/^ok [0-9]+ (- )?(.*) # SKIP (.*)/'"$1"'\t\2\t\3/p' "$logs/$1.log" |
    awk -F '\t' '{ key = $1 ": " $3; if (!count[key]++) first[key] = $2 }
      END { for (key in count)
        print "    SKIP " key " (" first[key] (count[key] > 1 ? " and " count[key] - 1 " more" : "") ")" }' |
    sort
}

# suite NAME COMMAND...: runs a stage that prints test results, and prints the skipped tests with their reasons. A
# stage that fails without a failed test (its build failed, or it was killed) counts as one failure.
suite() {
  local name=$1 before=$failed status=0
  stage "$@" || status=1
  count "$name"
  show_skips "$name"
  while IFS= read -r line; do failures+=("$name: $line"); done \
    < <(grep -hE '^(FAIL: |XPASS: |ERROR: |not ok )' "$logs/$name.log" | sort -u | head -n 20)
  if ((status != 0 && failed == before)); then
    failed=$((failed + 1))
    failures+=("$name: it ended with an error; see $logs/$name.log")
  fi
  return $status
}

# Makes ./configure if it is missing or older than its sources.
bootstrap() {
  [ ! -e config.status ] || die "the source folder is configured itself; run 'make distclean' in it"
  if [ ! -e configure ] || [ ! -e Makefile.in ] ||
    [ -n "$(find configure.ac Makefile.am m4/backplane.m4 ./*/ -maxdepth 3 \
      \( -name local.mk -o -name configure.ac -o -name Makefile.am -o -name backplane.m4 \) \
      -not -path './_build/*' -newer configure -print -quit)" ]; then
    stage autoreconf autoreconf -fi
  fi
}

# configure_in FOLDER ARGUMENT...: configures a build folder, unless it is configured with these arguments.
configure_in() {
  local folder=$1 source=$PWD
  shift
  mkdir -p "$folder"
  if [ -e "$folder/config.status" ] && [ "$(cat "$folder/.arguments" 2>/dev/null)" = "$*" ] &&
    [ ! configure -nt "$folder/config.status" ]; then
    return 0
  fi
  (cd "$folder" && "$source/configure" --silent "$@") && printf '%s\n' "$*" >"$folder/.arguments"
}

# make_in FOLDER GOAL...: builds goals in a configured folder.
make_in() { make -C "$1" LIBTOOL="$PWD/scripts/compile-libtool" "${@:2}"; }

# build_in FOLDER ARGUMENT...: configures and builds.
build_in() { configure_in "$@" && make_in "$1" all; }

# build_tests_in FOLDER ARGUMENT...: also builds the test programs. Benchmarks use libraries of the tests: two makes
# that run at once would both write these libraries.
build_tests_in() {
  build_in "$@" && make_in "$1" check TESTS= && make_in "$1" bench
}

# Runs a command without randomised addresses, where that is allowed. Newer kernels randomise so many bits by default
# that programs under the thread sanitizer do not start.
fixed_addresses() {
  if setarch -R true 2>/dev/null; then setarch -R "$@"; else "$@"; fi
}

# Prints the slowest tests of the plain build, with their elapsed and processor seconds.
show_slowest() {
  if [ -s "$build/tests/times" ]; then
    say "==> slowest tests: seconds, seconds on processors"
    sort -rn "$build/tests/times" | head -n 10 | sed 's/^/    /'
  fi
}

# Prints the failures and the closing line, and returns the exit status.
finish() {
  show_slowest
  if ((failed > 0)); then printf '%s\n' "==> failed" "${failures[@]/#/    }"; fi
  say "$passed passed, $failed failed, $skipped skipped"
  ((failed == 0))
}
