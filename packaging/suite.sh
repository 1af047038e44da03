# The project's own tests and benchmarks, in a system that has the package, on the modules that it
# brings or asks for. Sourced by deb_test.

tree=tmp/edged # within the system
benchmarks=(startup memory)

pip_of() {
    if "$python" -m pip --version > /dev/null 2>&1; then "$python" -m pip "$@"
    else python3 -m pip "$@"; fi
}

print_version='import sys; print("%d.%d" % sys.version_info[:2])'
python_version() { inside closure python3 -c "$print_version"; }

wheels() { # NAME REQUIREMENTS: sets $wheels, a directory of them for the system's Python
    local version
    version=$(python_version)
    wheels=$cache/$1-$version-$(sha256sum < "$2" | cut -c1-12)
    if [ ! -d "$wheels" ]; then
        rm -rf "$wheels.part"
        pip_of install -q --disable-pip-version-check --target "$wheels.part" --no-deps \
            --python-version "$version" --implementation cp --only-binary=:all: --require-hashes \
            -r "$2" 2> "$work/pip.log" || { cat "$work/pip.log" >&2; return 1; }
        mv "$wheels.part" "$wheels"
    fi
}

test_tools() { # RELEASE
    "$python" "$here/test_tools.py" "$source_tree/requirements-dev.lock" > "$work/tools.txt"
    wheels tools "$work/tools.txt"
    mkdir -p "$work/closure/opt/tools"
    mount --bind "$wheels" "$work/closure/opt/tools"
    # Behind Debian's own modules.
    echo /opt/tools > "$work/closure/usr/lib/python3/dist-packages/zz-tools.pth"
}

from_the_tree() { # COMMAND…: in the source tree, with loopback only
    # Bytecode is kept, and outside of the package, whose removal has to leave nothing.
    inside_alone closure env -u PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX=/tmp/bytecode \
        PYTHONPATH=/usr/lib/edged/vendor sh -c "cd /$tree && exec \"\$@\"" - "$@"
}

lay_out_tree() { # RELEASE: the source tree with what its tests need, beside the installed package
    inside closure apt-get install -qq --no-install-recommends nats-server curl iproute2 \
        procps git make python3-matplotlib > "$work/tools.log" 2>&1 ||
        { tail -n 20 "$work/tools.log" >&2; fail "$1: what the tests need cannot be installed"; }
    test_tools "$1"
    mkdir -p "$work/closure/$tree"
    (cd "$source_tree" && { git ls-files -z --cached --others --exclude-standard |
        xargs -0 cp --parents -t "$work/closure/$tree"; })
}

run_tests() { # RELEASE
    local which=(tests/unit tests/wire)
    [ -n "$is_quick" ] || which+=(tests/hostile tests/flows)
    # Where all tests run on this release's Python, the other unit tests would show nothing more here.
    if [ -n "$is_quick" ] && [ "$("$python" -c "$print_version")" = "$(python_version)" ]; then
        mapfile -t which < <("$python" "$here/tests_of_debian.py")
        which+=(tests/wire)
    fi
    say "$1: the test suite on the packaged modules: ${#which[@]} files and directories"
    lay_out_tree "$1"
    # Other people's clients are programs of their own, with environments from PyPI.
    # Shuffled the same way each time, as `make test` does.
    from_the_tree python3 -m pytest -p no:cacheprovider -q -n 2 --dist loadfile \
        --randomly-seed=20261121 -p tests.bench.old_test_client \
        --ignore tests/flows/test_sdk_client.py --ignore tests/wire/test_sdk_client.py "${which[@]}"
}

# What others' servers need comes from PyPI, as with them; ours runs on what Debian has.

peer() { # NAME: an environment where `make bench` looks for it
    local place=/$tree/.venv-clients/bench-$1 wheels
    wheels "bench-$1" "$source_tree/benchmarks/peers/requirements-$1.txt"
    inside closure python3 -m venv --without-pip "$place"
    mkdir -p "$work/closure/opt/bench-$1"
    mount --bind "$wheels" "$work/closure/opt/bench-$1"
    echo "/opt/bench-$1" > "$(echo "$work/closure$place"/lib/python3*/site-packages)/peers.pth"
    # What the package carries is not for it.
    rm "$work/closure$place/bin/python"
    printf '#!/bin/sh\nunset PYTHONPATH\nexec %s/bin/python3 "$@"\n' "$place" \
        > "$work/closure$place/bin/python"
    chmod +x "$work/closure$place/bin/python"
}

run_benchmarks() { # RELEASE
    local name
    lay_out_tree "$1"
    for name in mcp2 fastmcp; do peer "$name"; done
    say "$1: make bench (the TypeScript SDK, which needs Node, is left out)"
    # A bound that is not kept is told, and is for a quiet machine to judge; here it has to run.
    from_the_tree python3 -m benchmarks.compare || say "$1: not every bound was kept"
    [ -s "$work/closure/$tree/var/bench.json" ] || fail "$1: make bench does not run"
    for name in "${benchmarks[@]}"; do
        say "$1: benchmarks.$name"
        from_the_tree python3 -m "benchmarks.$name" || say "$1: not every bound was kept"
    done
}
