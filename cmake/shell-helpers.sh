# Shared by quickstart.sh and test.sh; sourced, never run. Needs bash, and the project's root as the current
# folder. What goes wrong is said in one line on stderr, and the function returns non-zero.
# shellcheck shell=bash

# What building needs. `a|b` is one package that distributions name differently.
# shellcheck disable=SC2034  # used by the scripts that source this
build_packages=(g++ cmake ninja-build "pkg-config|pkgconf" ccache liburing-dev libjpeg-dev libvips-dev
    libyuv-dev libboost-dev libhwy-dev nlohmann-json3-dev libspdlog-dev libcli11-dev libtomlplusplus-dev
    libxxhash-dev libseccomp-dev libsystemd-dev python3-dev python3-venv)

say() { printf '%s\n' "$*"; }
complain() { printf '%s\n' "${0##*/}: $*" >&2; }

is_installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# run_quietly LOG TITLE COMMAND...: one line of progress; the log's end is shown only if the command fails.
run_quietly() {
    local log=$1 title=$2 start=$SECONDS
    shift 2
    printf '%s ... ' "$title"
    if "$@" >>"$log" 2>&1 </dev/null; then
        say "done in $((SECONDS - start)) s"
        return 0
    fi
    say "failed"
    tail -n 60 "$log" >&2
    complain "$title failed; the whole log is $log"
    return 1
}

# Of `a|b`, the first name that apt knows.
known_name() {
    local name names
    IFS='|' read -ra names <<<"$1"
    for name in "${names[@]}"; do
        if apt-cache show "$name" >/dev/null 2>&1; then
            say "$name"
            return 0
        fi
    done
    say "${names[0]}"
}

# install_packages PACKAGE...: installs what is missing and says so first. Does nothing where all is there.
install_packages() {
    local package name found names missing=() chosen=() root=()
    if ! command -v dpkg-query >/dev/null; then
        complain "this is no Debian or Ubuntu; install what docs/dependencies.md lists and use the presets"
        return 1
    fi
    for package in "$@"; do
        found=
        IFS='|' read -ra names <<<"$package"
        for name in "${names[@]}"; do
            if is_installed "$name"; then found=1; fi
        done
        if [ -z "$found" ]; then missing+=("$package"); fi
    done
    if [ "${#missing[@]}" -eq 0 ]; then return 0; fi
    say "will install: ${missing[*]}"
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            complain "installing needs root; run as root, or: apt-get install ${missing[*]}"
            return 1
        fi
        root=(sudo)
    fi
    mkdir -p build
    local apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
    run_quietly build/install.log "updating the package lists" "${apt[@]}" update || return 1
    for package in "${missing[@]}"; do chosen+=("$(known_name "$package")"); done
    run_quietly build/install.log "installing ${#chosen[@]} packages" \
        "${apt[@]}" install -y --no-install-recommends "${chosen[@]}"
}

# Is any wallpaper here that photographs can be cut from?
have_wallpapers() {
    local folders=(/usr/share/backgrounds /usr/share/wallpapers)
    [ -n "$(find "${folders[@]}" -name '*.jpg' -size +100k -print -quit 2>/dev/null)" ]
}
