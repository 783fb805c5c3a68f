# Runs the steps of a script; sourced after lib.sh. Each step prints the output of its runner. A failed step does not
# stop the others. `finish` prints what took longest, what failed and the sums, and fails if a step failed.

passed=0
failed=0
log=$(mktemp)
faults=$(mktemp)
trap 'rm -f "$log" "$faults"' EXIT

# step NAME COMMAND..: counts the tests that the command reports, or the command itself as one test.
step() { run_step 1 "$@"; }

# tests NAME COMMAND..: the same for a runner of tests. It has failed if it ran no test.
tests() { run_step 0 "$@"; }

# build NAME COMMAND..: a step that counts as no test, and whose failure counts as one.
build() { run_step no "$@"; }

# run_step COUNT NAME COMMAND..: COUNT is the number of tests if the command reports none.
run_step() {
  local of_none=$1 name=$2 status=0 begun=$SECONDS good bad
  shift 2
  say "$name"
  "$@" 2>&1 | tee "$log" || status=1
  note_time step $((SECONDS - begun)) "$name"
  note_tests "$name"
  good=$(count 's/^test result: .* \([0-9]*\) passed; .*/\1/p; s/^# pass \([0-9]*\)$/\1/p')
  bad=$(count 's/^test result: .* \([0-9]*\) failed; .*/\1/p; s/^# fail \([0-9]*\)$/\1/p')
  if [ "$status" = 0 ] && [ $((good + bad)) = 0 ]; then
    case $of_none in
      no) ;;
      0)
        printf 'no test was run\n'
        status=1
        ;;
      *) good=$of_none ;;
    esac
  fi
  # A runner that ends well has failed all the same if one of its tests has: a script may have lost its status.
  [ "$bad" = 0 ] || status=1
  if [ "$status" != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
  passed=$((passed + good))
  failed=$((failed + bad))
  if [ "$status" != 0 ]; then
    { printf 'failed: %s\n' "$name" && failed_tests; } >>"$faults"
  fi
}

# Prints each failed test of the log: its name, its seed, and the beginning of its message. So the end of a long output
# says which test to run, and how. A step that names no test shows its last lines.
failed_tests() {
  local found
  found=$(awk '
    function show(line) { print "    " substr(line, 1, 200) }
    # Cargo prints the output of each failed test below such a heading, and at the end their names below `failures:`.
    /^---- .* stdout ----$/ { print "  " substr($0, 6, length($0) - 17); inside = 1; left = 6; next }
    /^failures:$/ { inside = left = 0 }
    inside && /ESCALE_SEED=/ { show($0); next }
    # Node prints the name, and then the fault as a block of YAML.
    /^# .*ESCALE_SEED=/ { seed = $0; next }
    /^ *not ok [0-9]+ - / { sub(/^ *not ok [0-9]+ - /, ""); print "  " $0; if (seed != "") show(seed); seed = ""; named = 1; next }
    /^ *ok [0-9]+ - / { seed = ""; next }
    /^ *error: / && named { left = 4; named = 0 }
    /^ *(code|name|stack): / && !inside { left = 0 }
    left > 0 && NF { show($0); left-- }
  ' "$log")
  if [ -n "$found" ]; then head -n 40 <<<"$found"; else tail -n 10 "$log" | sed 's/^/    /'; fi
}

# The sum of the numbers that a sed script finds in the log.
count() { sed -n "$1" "$log" | awk '{ sum += $1 } END { print sum + 0 }'; }

# Notes the time of each test of the log, if it is a second or more. Node tells it for each test, cargo for each of its
# binaries.
note_tests() {
  awk -v step="$1" -v OFS='\t' '
    /^ *(not )?ok [0-9]+ - / { name = $0; sub(/^ *(not )?ok [0-9]+ - /, "", name) }
    /^ *duration_ms: / && name != "" { if ($2 >= 1000) print name, int($2 / 1000 + 0.5), "test", step; name = "" }
    /^ *Running / { binary = $2 == "unittests" ? $3 " " $4 : $2 }
    /^test result: .*; finished in / {
      seconds = $NF; sub(/s$/, "", seconds)
      if (seconds >= 1) print binary, int(seconds + 0.5), "test", step
    }
  ' "$log" >>"$(times)"
}

# slowest KIND COUNT HEADING: prints the slowest steps or tests of this run.
slowest() {
  printf '\n%s, in seconds:\n' "$3"
  awk -F '\t' -v kind="$1" '$3 == kind { print $2 "\t" $1 }' "$(times)" | sort -rn | sed -n "1,$2p" |
    while IFS=$'\t' read -r seconds name; do printf '%6s  %s\n' "$seconds" "$name"; done
}

finish() {
  slowest step 10 "The slowest steps"
  slowest test 20 "The slowest tests"
  printf '\nall times: %s\n\n' "$(times)"
  cat "$faults"
  printf '%s passed, %s failed\n' "$passed" "$failed"
  [ "$failed" = 0 ]
}
