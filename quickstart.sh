#!/usr/bin/env bash
# ./quickstart.sh [FOLDER]: installs what is missing, builds, and streams one epoch of FOLDER.
#
# FOLDER is a folder of pictures (sub-folders are classes); without it a small set of photographs is made from
# the desktop wallpapers. The daemon is private to this run and leaves by itself. Exit 0 only if every
# sample is accounted for; 1 when FOLDER cannot be used, the build or the run fails; 2 for wrong use. May be
# run again.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/cmake/shell-helpers.sh"

log=build/quickstart.log
programs=build/release/bin

refuse() {
    complain "$*"
    exit 1
}

# The leading bytes of the formats that can be decoded, as hexadecimal digits.
looks_like_image() {
    case $(head -c 4 -- "$1" 2>/dev/null | od -An -tx1 | tr -d ' \n') in
        ffd8ff* | 89504e47 | 47494638 | 52494646 | 49492a00 | 4d4d002a | 424d*) return 0 ;;
        *) return 1 ;;
    esac
}

# Before anything is installed or built: nobody should wait for minutes to be told of a typing error.
check_folder() {
    local folder=$1 file
    if [ ! -e "$folder" ]; then refuse "$folder does not exist"; fi
    if [ ! -d "$folder" ]; then refuse "$folder is not a folder"; fi
    if [ ! -r "$folder" ] || [ ! -x "$folder" ]; then refuse "$folder may not be read"; fi
    if [ -z "$(find -L "$folder" -type f -print -quit 2>/dev/null)" ]; then refuse "$folder is empty"; fi
    # A name is enough to start on; without a telling name the first hundred files are looked into.
    if [ -n "$(find -L "$folder" -type f ! -name '.*' -size +0c -regextype posix-extended -iregex \
        '.*\.(jpe?g|png|webp|gif|bmp|tiff?)' -print -quit 2>/dev/null)" ]; then return; fi
    while IFS= read -r -d '' file; do
        if looks_like_image "$file"; then return; fi
    done < <(find -L "$folder" -type f ! -name '.*' -print0 2>/dev/null | head -z -n 100)
    refuse "$folder holds no image"
}

build() {
    run_quietly "$log" "configuring" cmake --preset release &&
        run_quietly "$log" "building (some minutes the first time)" \
            ninja -C build/release -j "$(nproc)" speedyloaderd speedyloader-worker speedyctl "$@"
}

# Process ids that were started under this run's private name.
own_processes() {
    grep -lzs "^SPEEDYLOADER_PRIVATE_NAME=$1\$" /proc/[0-9]*/environ | cut -d/ -f3 || true
}

# The daemon leaves within 5 s of its last client; more than 6 is a fault, and then it is ended here.
wait_for_daemon() {
    local name=$1 end=$((SECONDS + 7)) left
    while [ -n "$(own_processes "$name")" ] && [ "$SECONDS" -lt "$end" ]; do sleep 0.2; done
    left=$(own_processes "$name")
    if [ -z "$left" ]; then return 0; fi
    complain "the private daemon did not leave by itself; ending it"
    # shellcheck disable=SC2086  # one word a process
    kill $left 2>/dev/null || true
    return 1
}

main() {
    local folder="" status=0 name="quickstart-$$"
    if [ $# -gt 1 ] || [[ ${1-} == -* ]]; then
        printf 'usage: ./quickstart.sh [FOLDER]\n' >&2
        exit 2
    fi
    if [ $# -eq 1 ]; then
        check_folder "$1"
        folder=$(cd -- "$1" && pwd)
    fi
    cd "$here"
    mkdir -p build
    : >"$log"
    install_packages "${build_packages[@]}" || exit 1
    if [ -n "$folder" ]; then
        build || exit 1
    else
        have_wallpapers || install_packages ukui-wallpapers || exit 1
        build sl_make_photos || exit 1
        folder=build/data/quickstart
        run_quietly "$log" "making 1,024 photographs" "$programs/sl_make_photos" "$folder" --count 1024 || exit 1
    fi
    env -u SPEEDYLOADER_SOCKET SPEEDYLOADER_PRIVATE_NAME="$name" "$programs/speedyctl" run "$folder" ||
        status=$?
    wait_for_daemon "$name" || status=1
    exit "$status"
}

main "$@"
