# Runs the steps of a script; sourced after lib.sh. Each step prints the output of its runner. A failed step does not
# stop the others. `finish` prints the sums, and fails if a step failed.

passed=0
failed=0
failures=()
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# step NAME COMMAND..: counts the tests that the command reports, or the command itself as one test.
step() { run_step 1 "$@"; }

# tests NAME COMMAND..: the same for a runner of tests. It has failed if it ran no test.
tests() { run_step 0 "$@"; }

# run_step COUNT NAME COMMAND..: COUNT is the number of tests if the command reports none.
run_step() {
  local of_none=$1 name=$2 status=0 good bad
  shift 2
  say "$name"
  "$@" 2>&1 | tee "$log" || status=1
  good=$(count 's/^test result: .* \([0-9]*\) passed; .*/\1/p; s/^# pass \([0-9]*\)$/\1/p')
  bad=$(count 's/^test result: .* \([0-9]*\) failed; .*/\1/p; s/^# fail \([0-9]*\)$/\1/p')
  if [ "$status" = 0 ] && [ $((good + bad)) = 0 ]; then
    good=$of_none
    if [ "$of_none" = 0 ]; then
      printf 'no test was run\n'
      status=1
    fi
  fi
  if [ "$status" != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
  passed=$((passed + good))
  failed=$((failed + bad))
  [ "$status" = 0 ] || failures+=("$name")
}

# The sum of the numbers that a sed script finds in the log.
count() { sed -n "$1" "$log" | awk '{ sum += $1 } END { print sum + 0 }'; }

finish() {
  printf '\n'
  for name in ${failures[@]+"${failures[@]}"}; do printf 'failed: %s\n' "$name"; done
  printf '%s passed, %s failed\n' "$passed" "$failed"
  [ ${#failures[@]} = 0 ]
}
