# The life of python3-pyvisa-edged on a computer without edged, whose network a booted bench is on.
# Sourced by deb_test.

backend=python3-pyvisa-edged

backend_of() { # PACKAGE: the backend that was built with this package of edged
    echo "${1%/*}/$backend${1##*/edged}"
}

with_bench() { # NAME COMMAND…: in a system, on the network of the booted one
    net= "${environment[@]}" nsenter --target "$booted" --net \
        unshare --mount --pid --fork --kill-child bash -c "$first" "$work/$1" "${@:2}"
}

apt_of_program() { # RELEASE WORD…: told only where it fails
    inside program apt-get -qq --no-install-recommends "${@:2}" > "$work/program.log" 2>&1 ||
        { tail -n 20 "$work/program.log" >&2; fail "$1: apt-get ${*:2}"; }
}

ask_bench() { # RELEASE WHEN
    with_bench program python3 -I - < "$here/visa_program.py" || fail "$1: no answer through @edged $2"
}

check_no_trace() { # RELEASE WHEN
    files_of program | diff "$work/before.program" - > "$work/left" ||
        { head -n 40 "$work/left" >&2; fail "$1: other files than before $2"; }
}

use_from_program() { # RELEASE
    say "$1: $backend on a computer without edged: install, ask, upgrade, remove, purge"
    overlay "$1" program
    echo force-unsafe-io > "$work/program/etc/dpkg/dpkg.cfg.d/90here"
    cp "$(backend_of "$package")" "$work/program/srv/backend.deb"
    cp "$(backend_of "$next")" "$work/program/srv/next.deb"
    # What Debian's own packages leave behind is theirs.
    apt_of_program "$1" install python3-pyvisa
    files_of program > "$work/before.program"
    apt_of_program "$1" install /srv/backend.deb
    find "$work/program/usr/lib/python3/dist-packages/pyvisa_edged" -name '*.pyc' | grep . > /dev/null ||
        fail "$1: $backend is not compiled"
    ask_bench "$1" "after the installation"
    at bench edged audit list --json | grep "PyVISA 1" > /dev/null ||
        fail "$1: the record does not name the program"
    apt_of_program "$1" install /srv/next.deb
    inside program dpkg-query -W -f '${Version}\n' "$backend" | grep -q +next || fail "$1: not upgraded"
    ask_bench "$1" "after the upgrade"
    apt_of_program "$1" remove "$backend"
    check_no_trace "$1" "after the removal"
    apt_of_program "$1" install /srv/backend.deb
    ask_bench "$1" "after a second installation"
    apt_of_program "$1" purge "$backend"
    check_no_trace "$1" "after the purge"
}
