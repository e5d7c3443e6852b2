# The Python environment of test.sh: made once for a list of requirements, kept in the user's cache and used
# again. Sourced, never run, after shell-helpers.sh. What goes wrong is said, and the function returns non-zero.
# shellcheck shell=bash

# The Python that all environments are made from: the distribution's, whatever is on PATH.
system_python=/usr/bin/python3

# Nothing of the caller's own Python may leak in. Of pip's settings those stay that say where packages come
# from.
clean_python_settings() {
    local name
    for name in VIRTUAL_ENV CONDA_PREFIX $(compgen -e PYTHON) $(compgen -e PIP_); do
        case $name in
            PIP_INDEX_URL | PIP_EXTRA_INDEX_URL | PIP_FIND_LINKS | PIP_TRUSTED_HOST | PIP_CERT | \
                PIP_CLIENT_CERT | PIP_PROXY | PIP_CONFIG_FILE | PIP_CACHE_DIR | PIP_DEFAULT_TIMEOUT | \
                PIP_RETRIES) ;;
            *) unset "$name" ;;
        esac
    done
    export PYTHONNOUSERSITE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
}

# pip_setting PYTHON NAME: what pip was told, by its variable or its configuration files; nothing if nothing.
pip_setting() {
    local where
    for where in :env: install global; do
        if "$1" -m pip config get "$where.$2" 2>/dev/null; then return; fi
    done
}

# uv does not read pip's settings. pass_to_uv VARIABLE PYTHON NAME: unless the user told uv something else.
pass_to_uv() {
    local value
    if [ -n "${!1-}" ]; then return; fi
    value=$(pip_setting "$2" "$3")
    if [ -n "$value" ]; then export "$1=$value"; fi
}

# fill_python_env FOLDER REQUIREMENTS: uv, because pip takes minutes for what uv does in half of one.
fill_python_env() {
    local python=$1/bin/python
    rm -rf "$1"
    mkdir -p "$1"
    run_quietly build/test.log "making a Python environment in $1" "$system_python" -m venv "$1" || return 1
    run_quietly build/test.log "installing uv" "$python" -m pip install "$(grep '^uv==' "$2")" || return 1
    pass_to_uv UV_DEFAULT_INDEX "$python" index-url
    pass_to_uv UV_EXTRA_INDEX_URL "$python" extra-index-url
    pass_to_uv UV_INSECURE_HOST "$python" trusted-host
    pass_to_uv SSL_CERT_FILE "$python" cert
    run_quietly build/test.log "installing the frameworks that tests use (some GB the first time)" \
        "$1/bin/uv" pip install --python "$python" -r "$2" || return 1
    # The one package that a wheel of ours needs, for tests that install it without an index.
    run_quietly build/test.log "fetching nanobind-backend" \
        "$python" -m pip download --no-deps --dest "$1/wheels" "$(grep '^nanobind-backend==' "$2")" || return 1
    touch "$1/complete"
}

# make_python_env REQUIREMENTS: sets python_env to the folder. One run at a time makes it, others wait for
# that; one that was left half made is made anew. Environments of older requirements go after a month without
# use.
make_python_env() {
    local cache=${XDG_CACHE_HOME:-${HOME:-$PWD/build}/.cache}/speedyloader lock old status=0
    python_env=$cache/test-env-$({ "$system_python" -VV && cat "$1"; } | sha256sum | cut -c1-16)
    mkdir -p "$cache" || return 1
    exec {lock}>"$python_env.lock"
    if ! flock --nonblock "$lock"; then
        say "waiting for another run that makes the Python environment"
        flock "$lock"
    fi
    if [ ! -e "$python_env/complete" ]; then fill_python_env "$python_env" "$1" || status=1; fi
    if [ "$status" -eq 0 ]; then touch "$python_env/complete"; fi
    while IFS= read -r old; do rm -rf "${old%/complete}"; done < <(
        find "$cache" -mindepth 2 -maxdepth 2 -path '*/test-env-*/complete' -mtime +30 2>/dev/null)
    exec {lock}>&-
    return "$status"
}
