# SPDX-License-Identifier: Apache-2.0
# Shell functions of ./quickstart and scripts/check-long: named stages with a log each, progress,
# and the count of test results. Sourced with the source folder as working directory.

build=$PWD/_build
logs=$build/logs
jobs=$(nproc)
passed=0 failed=0 skipped=0 failures=()
compiler_prefix=
if command -v ccache >/dev/null; then compiler_prefix="ccache "; fi

say() { printf '%s\n' "$*"; }
die() { printf 'quickstart: %s\n' "$*" >&2; exit 1; }

# stage NAME COMMAND...: runs it with its output in _build/logs/NAME.log, saying every 20 s where it
# is; on failure shows what failed, or the end of the log, and returns 1.
stage() {
  local name=$1 log=$logs/$1.log began=$SECONDS ticks=0 status=0 pid
  shift
  say "==> $name"
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    sleep 1
    ticks=$((ticks + 1))
    if ((ticks % 20 == 0)); then say "    $((SECONDS - began)) s: $(tail -n 1 "$log" | cut -c 1-90)"; fi
  done
  wait "$pid" || status=$?
  if ((status == 0)); then
    say "    done in $((SECONDS - began)) s"
    return 0
  fi
  say "    FAILED after $((SECONDS - began)) s (exit $status); from $log:"
  grep -E '^(FAIL|ERROR|not ok)|error:|\*\*\*' "$log" | head -n 30 | sed 's/^/    ! /' || true
  if grep -qE '^(FAIL|ERROR): ' "$log"; then
    show_failed_tests "$log"
  else
    tail -n 40 "$log" | sed 's/^/    | /'
  fi
  return 1
}

# show_failed_tests LOG: what the first failed programs of a `make check` said of their failure; the
# end of the log where theirs do not tell, or lie elsewhere.
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

# show_skips LOG: what was skipped, the tests of one program and one reason in one line.
show_skips() {
  sed -nE -e 's/^SKIP: ([^ ]+) [0-9]+ (- )?(.*) # SKIP (.*)/\1\t\3\t\4/p' \
    -e 's/^SKIP: ([^ ]+)$/\1\tall\tits log says why/p' \
    -e 's/^ok [0-9]+ (- )?(.*) # SKIP (.*)/'"$1"'\t\2\t\3/p' "$logs/$1.log" |
    awk -F '\t' '{ key = $1 ": " $3; if (!count[key]++) first[key] = $2 }
      END { for (key in count)
        print "    SKIP " key " (" first[key] (count[key] > 1 ? " and " count[key] - 1 " more" : "") ")" }' |
    sort
}

# suite NAME COMMAND...: a stage that prints test results; what was skipped is said, with why. One
# that fails without a failed test (it did not build, it was killed) is one failure.
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

# Makes ./configure if it is not there or older than what it is made from.
bootstrap() {
  [ ! -e config.status ] || die "the source folder is configured itself; run 'make distclean' in it"
  if [ ! -e configure ] || [ ! -e Makefile.in ] ||
    [ -n "$(find configure.ac Makefile.am m4/backplane.m4 ./*/ -maxdepth 3 \
      \( -name local.mk -o -name configure.ac -o -name Makefile.am -o -name backplane.m4 \) \
      -not -path './_build/*' -newer configure -print -quit)" ]; then
    stage autoreconf autoreconf -fi
  fi
}

# configure_in FOLDER ARGUMENT...: configures a build folder unless it was with the same arguments.
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

# build_in FOLDER ARGUMENT...: configures and builds.
build_in() {
  configure_in "$@" && make -C "$1" -j"$jobs" all
}

# build_tests_in FOLDER ARGUMENT...: the test programs too. Benchmarks use libraries of the tests, which
# two makes at once would build over each other.
build_tests_in() {
  build_in "$@" && make -C "$1" -j"$jobs" check TESTS= && make -C "$1" -j"$jobs" bench
}

# The tests of the plain build that took longest: their seconds, and those on processors.
show_slowest() {
  if [ -s "$build/tests/times" ]; then
    say "==> slowest tests: seconds, seconds on processors"
    sort -rn "$build/tests/times" | head -n 10 | sed 's/^/    /'
  fi
}

# What failed, the closing line, and the exit status that goes with it.
finish() {
  show_slowest
  if ((failed > 0)); then printf '%s\n' "==> failed" "${failures[@]/#/    }"; fi
  say "$passed passed, $failed failed, $skipped skipped"
  ((failed == 0))
}
