# The scripts of this folder begin with `. "$(dirname "$0")/lib.sh"`. It changes to the repository's root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PWD/node_modules/.bin:$PATH"

# For a script that nobody started by make.
if [ -z "${RUSTUP_TOOLCHAIN:-}" ]; then
  RUSTUP_TOOLCHAIN=$(scripts/toolchain)
  if [ -n "$RUSTUP_TOOLCHAIN" ]; then export RUSTUP_TOOLCHAIN; else unset RUSTUP_TOOLCHAIN; fi
fi

# Prints a heading: bold in a terminal, plain in a log.
say() {
  if [ -t 1 ]; then printf '\033[1m-- %s\033[0m\n' "$*"; else printf -- '-- %s\n' "$*"; fi
}

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# The version of a crate that Cargo.lock pins.
locked() { sed -n "/^name = \"$1\"\$/{n;s/^version = \"\(.*\)\"\$/\1/p;q}" Cargo.lock; }

target_dir() { printf '%s' "${CARGO_TARGET_DIR:-target}"; }

# The file of what the last run took: name, seconds, and `step` or `test`, with tabs between them. `make test` begins it.
times() {
  mkdir -p "$(target_dir)"
  printf '%s/times.tsv' "$(target_dir)"
}

# note_time KIND SECONDS NAME
note_time() { printf '%s\t%s\t%s\n' "$3" "$2" "$1" >>"$(times)"; }

# timed NAME COMMAND..: runs a command whose time is noted.
timed() {
  local name=$1 begun=$SECONDS status=0
  shift
  "$@" || status=$?
  [ $SECONDS = $begun ] || note_time step $((SECONDS - begun)) "$name"
  return "$status"
}

# Keeps this machine's folders out of the package. Otherwise each message of a panic would name the builder's home. The
# flags of RUSTFLAGS stay. They are encoded, because a path may have spaces.
hide_paths() {
  local flags=() flag separator=$'\x1f'
  if [ -n "${CARGO_ENCODED_RUSTFLAGS-}" ]; then
    IFS=$separator read -ra flags <<<"$CARGO_ENCODED_RUSTFLAGS"
  else
    read -ra flags <<<"${RUSTFLAGS-}"
  fi
  # The last prefix that matches counts. On some build machines these homes are inside the repository.
  flags+=("--remap-path-prefix=$PWD=escale" "--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
    "--remap-path-prefix=${RUSTUP_HOME:-$HOME/.rustup}=rustup")
  CARGO_ENCODED_RUSTFLAGS=""
  for flag in "${flags[@]}"; do CARGO_ENCODED_RUSTFLAGS+="${CARGO_ENCODED_RUSTFLAGS:+$separator}$flag"; done
  export CARGO_ENCODED_RUSTFLAGS
}

# Installs Debian packages if this user may. Otherwise it tells the user which ones to install.
apt_install() {
  if ! have apt-get; then die "install by your system's means: $*"; fi
  if [ "$(id -u)" != 0 ]; then die "not root. Install these packages first: sudo apt-get install $*"; fi
  say "Installing $* with apt-get"
  DEBIAN_FRONTEND=noninteractive apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$@"
}

# install_tool CRATE VERSION: installs the programs of a crate, from its release if scripts/tools.data has that, otherwise
# from its sources. It is built for a short build: its own work takes less.
install_tool() {
  say "Installing $1 $2"
  if fetch_tool "$1" "$2"; then return; fi
  CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=false CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
    cargo install "$1" --version "$2" --locked
}

# fetch_tool CRATE VERSION: installs the released programs, whose SHA-256 scripts/tools.data pins. Fails, with the reason and
# nothing installed, if there is no release for this host, no network, or another sum. TOOLS_URL and TOOLS_DATA name
# another server and another list.
fetch_tool() {
  local base=${TOOLS_URL:-https://github.com} bin="${CARGO_HOME:-$HOME/.cargo}/bin" host path sum programs folder found program
  host=$(rustc --version --verbose | sed -n 's/^host: //p')
  IFS='|' read -r path sum programs < <(awk -F ' [|] ' -v crate="$1" -v version="$2" -v host="$host" \
    '$1 == crate && $2 == version && $3 == host { print $4 "|" $5 "|" $6 }' "${TOOLS_DATA:-scripts/tools.data}") || true
  [ -n "$path" ] || { printf 'no release of %s %s for %s is known here\n' "$1" "$2" "$host" && return 1; }
  have curl && have tar || { printf 'curl and tar are needed to download %s\n' "$1" && return 1; }
  folder=$(mktemp -d)
  if ! curl --fail --silent --show-error --location --proto "=${base%%:*}" --connect-timeout 10 --output "$folder/archive" "$base/$path"; then
    printf '%s was not downloaded\n' "$1"
  else
    found=$(sha256 "$folder/archive")
    if [ "$found" != "$sum" ]; then
      printf '%s/%s has another SHA-256 than scripts/tools.data: %s\n' "$base" "$path" "$found"
    elif tar -xzf "$folder/archive" -C "$folder" && mkdir -p "$bin"; then
      for program in $programs; do
        found=$(find "$folder" -type f -name "$program" -print -quit)
        # A program for another system than this one does not even tell its version.
        [ -n "$found" ] && chmod 755 "$found" && "$found" --version >/dev/null 2>&1 || { programs="" && break; }
      done
      for program in $programs; do mv -f "$(find "$folder" -type f -name "$program" -print -quit)" "$bin/"; done
      [ -n "$programs" ] && rm -rf "$folder" && return 0
      printf 'the released %s does not run here\n' "$1"
    fi
  fi
  rm -rf "$folder"
  return 1
}

# The SHA-256 of a file.
sha256() { if have sha256sum; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1; }

# npm_packages FOLDER: installs the packages of the folder's package-lock.json, if they are not there.
npm_packages() {
  # npm writes this file last.
  if [ ! "$1/node_modules/.package-lock.json" -nt "$1/package-lock.json" ]; then
    say "Installing the npm packages of $(cd "$1" && basename "$PWD")"
    (cd "$1" && npm ci && touch node_modules/.package-lock.json)
  fi
}

# Makes a Python of its own in a folder, with these packages as arguments of pip.
make_python() {
  local folder=$1
  shift
  have python3 || apt_install python3 python3-venv
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "Python 3.11 or later is needed, $(python3 --version) found"
  python3 -m venv "$folder" || { apt_install python3-venv && python3 -m venv "$folder"; }
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
}

# Prints the path of the first of these commands that exists, or nothing.
first_of() {
  local name
  for name in "$@"; do
    if [ -n "$name" ] && have "$name"; then
      command -v "$name"
      return
    fi
  done
}

# Finds the browsers and their drivers: those that the environment names, otherwise the installed ones.
find_browsers() {
  CHROME=$(first_of "${CHROME:-}" chromium chromium-browser google-chrome-stable google-chrome)
  CHROMEDRIVER=$(first_of "${CHROMEDRIVER:-}" chromedriver)
  FIREFOX=$(first_of "${FIREFOX:-}" firefox-esr firefox)
  GECKODRIVER=$(first_of "${GECKODRIVER:-}" geckodriver)
  export CHROME CHROMEDRIVER FIREFOX GECKODRIVER
}

# Finds the programs of PostgreSQL, version 14 or later: in the folder that PG_BIN names, otherwise the newest ones.
find_postgres() {
  local folder
  if [ -n "${PG_BIN:-}" ]; then return; fi
  for folder in $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -rV) "$(dirname "$(first_of pg_ctl)")"; do
    if [ -x "$folder/initdb" ] && [ "$("$folder/initdb" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')" -ge 14 ]; then
      PG_BIN=$folder
      break
    fi
  done
  export PG_BIN="${PG_BIN:-}"
}

# Whether a program listens on a port of this machine.
port_is_taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
