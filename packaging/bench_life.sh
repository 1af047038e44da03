# The life of an installed bench, from `apt install` to `apt purge`, in a system with systemd as its
# PID 1. Sourced by deb_test.

initialize='{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26",
"capabilities":{},"clientInfo":{"name":"curl","version":"8"}}}'

files_of() { # NAME: what could be left behind (etc/hosts is netbase's)
    (cd "$work/$1" && find etc usr var lib opt srv home root run -xdev 2> /dev/null |
        grep -v -E '^(var/(lib/(dpkg|apt|systemd)|cache|log|tmp)|run|usr/share/info)(/|$)' |
        grep -v -E '^etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$|/ld.so.cache$|/__pycache__(/|$)|^etc/hosts$' |
        sort)
}

post() { # NAME BODY [ADDRESS]: to the MCP endpoint
    at "$1" curl -sS --max-time 10 "http://${3:-127.0.0.1}:8767/mcp" -H 'Content-Type: application/json' \
        -H 'Accept: application/json, text/event-stream' -d "$2"
}

await_initialize() { # NAME SECONDS
    local began=$SECONDS
    until post "$1" "$initialize" 2> /dev/null | grep -q serverInfo; do
        if [ $((SECONDS - began)) -gt "$2" ]; then
            at "$1" journalctl --no-pager -u edged | tail -n 40 >&2
            fail "no initialize within $2 s"
        fi
        sleep 0.1
    done
}

engine_of() { at "$1" pgrep -d ' ' -f 'edged engine --supervised'; }

processes_of() { # NAME: the process ids of the supervisor and the engine
    echo "$(at "$1" systemctl show --property MainPID --value edged) $(engine_of "$1")"
}

install_and_start() { # RELEASE
    say "$1: boot, install, first initialize"
    overlay "$1" bench
    boot bench
    # Whoever restarts or stops something is seen.
    mv "$work/bench/usr/bin/systemctl" "$work/bench/usr/bin/systemctl.real"
    install -m 755 "$here/recording_systemctl" "$work/bench/usr/bin/systemctl"
    inside closure apt-get install -qq --no-install-recommends --download-only procps > /dev/null
    [ -n "$is_quick" ] || inside closure apt-get install -qq --no-install-recommends \
        --download-only python3-matplotlib > /dev/null
    at bench apt-get install -qq --no-install-recommends procps > /dev/null 2>&1
    # Not in /tmp, over which newer systems mount their own.
    cp "$package" "$work/bench/srv/edged.deb"
    cp "$next" "$work/bench/srv/next.deb"
    cp "$source_tree/tests/smoke.sh" "$work/bench/srv/"
    files_of bench > "$work/before"
    local began=${EPOCHREALTIME/./}
    at bench apt-get install -qq --no-install-recommends /srv/edged.deb \
        > "$work/install.log" 2>&1 || { tail -n 20 "$work/install.log" >&2; fail "$1: install"; }
    await_initialize bench 120
    local took_ms=$(((${EPOCHREALTIME/./} - began) / 1000))
    say "$1: install to initialize: $took_ms ms"
    # Beside a whole CI run this says little, so there it is only told.
    [ -n "$is_quick" ] || [ "$took_ms" -lt 60000 ] || fail "$1: install to initialize took over 60 s"
    [ "$(at bench systemctl is-enabled edged)" = enabled ] || fail "the unit is not enabled"
    at bench systemd-analyze verify --man=no edged.service 2>&1 | { ! grep .; } ||
        fail "$1: systemd-analyze verify"
    local installed
    installed=$(at bench dpkg-query -W -f '${Installed-Size}' edged)
    say "$1: installed size $installed KiB; idle: $(at bench ps -o rss=,args= -u edged |
        awk '{ printf "%d MiB (%s) ", $1 / 1024, $(NF > 4 ? 5 : NF) }')"
}

use_it() { # RELEASE
    say "$1: doctor, as root and as anybody; what an ordinary user sees"
    at bench edged doctor | tee "$work/doctor.log" || fail "$1: doctor has complaints"
    ! grep 'not searched, because' "$work/doctor.log" || fail "$1: a bus cannot be looked at"
    at bench runuser -u nobody -- edged doctor > "$work/doctor.log" ||
        { cat "$work/doctor.log" >&2; fail "$1: doctor has complaints as nobody"; }
    at bench runuser -u nobody -- edged status > /dev/null
    say "$1: a simulated bench, the curl smoke test"
    mkdir -p "$work/bench/etc/systemd/system/edged.service.d"
    printf '[Service]\nExecStart=\nExecStart=/usr/bin/edged supervisor -- --sim --seed 1\n' \
        > "$work/bench/etc/systemd/system/edged.service.d/sim.conf"
    at bench systemctl daemon-reload
    at bench systemctl restart edged
    await_initialize bench 20
    at bench bash /srv/smoke.sh | grep -c '"result"' | grep -q 3 || fail "$1: smoke test"
    at bench runuser -u nobody -- edged instruments
    local client
    for client in claude cursor vscode json; do
        at bench runuser -u nobody -- edged connect "$client" 2> /dev/null |
            grep "http://$address:8767/mcp" > /dev/null ||
            fail "$1: edged connect $client does not tell where the bench is"
    done
    post bench "$initialize" "$address" | grep serverInfo > /dev/null ||
        fail "$1: the bench does not answer where edged connect says"
}

upgrade_beside_a_sweep() { # RELEASE
    say "$1: upgrade during a sweep"
    local sweep before told
    sweep=$(at bench edged sweep start psu1 set_voltage 30 0.1 channel=1 \
        --measure dmm1 measure_dc_voltage --detach --json |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["sweep_id"])')
    before=$(processes_of bench)
    : > "$work/bench/var/log/systemctl.calls"
    at bench apt-get install -qq /srv/next.deb > "$work/upgrade.log" 2>&1 ||
        { tail -n 20 "$work/upgrade.log" >&2; fail "$1: upgrade"; }
    at bench dpkg-query -W -f '${Version}\n' edged | grep -q +next || fail "$1: not upgraded"
    grep -q 'restart --when-idle' "$work/upgrade.log" || fail "$1: the upgrade says nothing"
    ! grep -E '(stop|restart|reload-or|kill|start).*edged' "$work/bench/var/log/systemctl.calls" ||
        fail "$1: the upgrade touched the service"
    [ "$before" = "$(processes_of bench)" ] || fail "$1: other processes run after the upgrade"
    told=$(at bench edged sweep status "$sweep" --json)
    grep -q '"running"' <<< "$told" || fail "$1: the sweep does not run any more: $told"
    sleep 1
    [ "$told" != "$(at bench edged sweep status "$sweep" --json)" ] || fail "$1: the sweep stands"
    at bench edged sweep stop "$sweep" > /dev/null
    at bench edged restart --when-idle --within 60 || fail "$1: no restart when idle"
    await_initialize bench 20
    [ "${before#* }" != "$(engine_of bench)" ] || fail "$1: the same engine after the restart"
    [ "${before%% *}" = "$(processes_of bench | cut -d ' ' -f 1)" ] ||
        fail "$1: systemd saw the supervisor end"
    [ -n "$is_quick" ] || draw "$1" "$sweep"
}

draw() { # RELEASE SWEEP
    say "$1: a picture, drawn within the service's confinement"
    at bench apt-get install -qq --no-install-recommends -o DPkg::Options::=--force-unsafe-io \
        python3-matplotlib > "$work/plot.log" 2>&1 ||
        { tail -n 20 "$work/plot.log" >&2; fail "$1: python3-matplotlib"; }
    at bench edged runs show "$2" --png /srv/picture.png
    head -c 4 "$work/bench/srv/picture.png" | tail -c 3 | grep -q PNG || fail "$1: no picture"
    rm "$work/bench/srv/picture.png"
    # What it brought goes with it: what is left after the purge is ours.
    at bench apt-get purge -qq --autoremove -o APT::AutoRemove::RecommendsImportant=false \
        -o APT::AutoRemove::SuggestsImportant=false python3-matplotlib > "$work/plot.log" 2>&1
}

heal() { # RELEASE
    say "$1: a killed engine comes back; a wrong configuration is not tried again"
    local before
    before=$(engine_of bench)
    at bench kill -KILL "$before"
    await_initialize bench 20
    echo 'MCP_PORTT: 1' > "$work/bench/etc/edged/edged.yaml.d.broken"
    mkdir -p "$work/bench/etc/edged/edged.yaml.d"
    mv "$work/bench/etc/edged/edged.yaml.d.broken" "$work/bench/etc/edged/edged.yaml.d/x.yaml"
    at bench systemctl restart edged 2> /dev/null && fail "$1: started with a wrong configuration"
    sleep 2
    [ "$(at bench systemctl is-active edged)" = failed ] || fail "$1: it is tried again"
    at bench journalctl --no-pager -u edged | grep 'Did you mean MCP_PORT' > /dev/null ||
        fail "$1: the journal does not name the key"
    rm "$work/bench/etc/edged/edged.yaml.d/x.yaml"
    at bench systemctl start edged
    await_initialize bench 20
}

sweep_the_supply() { # sets $swept_at: how much the instrument has heard when the sweep moves
    local began=$SECONDS
    until at bench edged sweep start psu1 set_voltage 30 0.1 channel=1 --detach > "$work/sweep.log" 2>&1; do
        [ $((SECONDS - began)) -lt 20 ] || fail "no sweep starts: $(tail -n 1 "$work/sweep.log")"
        sleep 0.5
    done
    swept_at=$(wc -l < "$work/bench/srv/bytes.log")
    until tail -n "+$swept_at" "$work/bench/srv/bytes.log" | grep 'VOLT 0\.[1-9]' > /dev/null; do
        [ $((SECONDS - began)) -lt 20 ] || fail "the sweep does not move"
        sleep 0.2
    done
    swept_at=$(wc -l < "$work/bench/srv/bytes.log")
}

await_change() { # RELEASE BEFORE COMMAND…: until the command says something else, and that not empty
    local began=$SECONDS now
    until now=$("${@:3}") && [ -n "$now" ] && [ "$now" != "$2" ]; do
        if [ $((SECONDS - began)) -gt 60 ]; then
            at bench journalctl --no-pager -u edged | tail -n 40 >&2
            fail "$1: $2 was not ended within 60 s"
        fi
        sleep 0.5
    done
}

check_abort() { # RELEASE WHAT: the instrument has been told to be safe since the sweep moved
    await_initialize bench 60
    local began=$SECONDS
    until tail -n "+$swept_at" "$work/bench/srv/bytes.log" | grep '"in".*OUTP CH1,OFF' > /dev/null; do
        [ $((SECONDS - began)) -lt 20 ] || fail "$1: no abort after $2 hung"
        sleep 0.2
    done
}

main_process() { at bench systemctl show --property MainPID --value edged | grep -v '^0$'; }

hang() { # RELEASE
    say "$1: an engine that hangs is ended by the supervisor, a supervisor that hangs by systemd"
    local supervisor engine began=$SECONDS
    # Instruments that outlive whoever works them.
    at bench systemd-run --quiet --unit instruments /usr/bin/edged sim --instruments psu1,dmm1 \
        --port psu1=5555 --port dmm1=5556 --byte-log /srv/bytes.log
    printf '[Service]\nWatchdogSec=4\nExecStart=\nExecStart=%s\n' '/usr/bin/edged supervisor' \
        > "$work/bench/etc/systemd/system/edged.service.d/sim.conf"
    mkdir -p "$work/bench/etc/edged/edged.yaml.d"
    printf 'DISCOVERY: []\nINSTRUMENTS:\n- {address: "TCPIP0::127.0.0.1::%s::SOCKET", name: %s}\n%s\n' \
        5555 psu1 '- {address: "TCPIP0::127.0.0.1::5556::SOCKET", name: dmm1}' \
        > "$work/bench/etc/edged/edged.yaml.d/x.yaml"
    at bench systemctl daemon-reload
    at bench systemctl restart edged
    await_initialize bench 20
    sweep_the_supply
    supervisor=$(main_process) engine=$(engine_of bench) began=$SECONDS
    at bench kill -STOP "$engine"
    await_change "$1" "$engine" engine_of bench
    check_abort "$1" "the engine"
    [ "$supervisor" = "$(main_process)" ] || fail "$1: systemd saw the supervisor end"
    say "$1: a stopped engine: killed, its sweep's supply switched off, back in $((SECONDS - began)) s"
    sweep_the_supply
    began=$SECONDS
    at bench kill -STOP "$supervisor"
    await_change "$1" "$supervisor" main_process
    check_abort "$1" "the supervisor"
    at bench journalctl --no-pager | grep 'edged.service: Watchdog timeout' > /dev/null ||
        fail "$1: it was not the watchdog"
    say "$1: a stopped supervisor (WatchdogSec=4): the same in $((SECONDS - began)) s"
    at bench systemctl stop instruments
    rm "$work/bench/etc/edged/edged.yaml.d/x.yaml" "$work/bench/srv/bytes.log"
    at bench systemctl restart edged
    await_initialize bench 20
}

remove_and_purge() { # RELEASE
    say "$1: remove, install again, purge; nothing is left"
    at bench apt-get remove -qq edged > "$work/remove.log" 2>&1
    ! at bench pgrep -u edged || fail "$1: it runs after its removal"
    [ -s "$work/bench/var/lib/edged/edged.db" ] || fail "$1: the removal took the state"
    [ -s "$work/bench/etc/edged/edged.yaml" ] || fail "$1: the removal took the configuration"
    at bench apt-get install -qq --no-install-recommends /srv/edged.deb \
        --allow-downgrades > /dev/null 2>&1
    await_initialize bench 20
    at bench apt-get purge -qq edged > "$work/purge.log" 2>&1
    at bench apt-get autoremove -qq --purge >> "$work/purge.log" 2>&1
    rm -r "$work/bench/etc/systemd/system/edged.service.d"
    files_of bench | diff "$work/before" - | grep '^>' > "$work/left" || true
    [ ! -s "$work/left" ] || { head -n 40 "$work/left" >&2; fail "$1: something is left after the purge"; }
    ! at bench pgrep -u edged || fail "$1: it runs after its purge"
}
