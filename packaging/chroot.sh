# Debian systems to try the package in: a cached debootstrap, an overlay over it, and systemd as its
# PID 1. Sourced by deb_test, which runs as root in a mount namespace of its own; what is mounted
# goes with that. Mirrors are those of this machine's apt, read when they are needed.

cache=${DEB_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/edged-deb-test}
bench_packages=systemd-sysv,systemd,udev,dbus,curl,ca-certificates

mirror() { # ENDING: the first archive of this machine's apt whose address ends so
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m 1 "/$1/\?$"
}

base() { # RELEASE: the system that everything starts from, made once
    local root=$cache/$1
    if [ ! -e "$root.made" ]; then
        rm -rf "$root"
        mkdir -p "$root"
        debootstrap --variant=minbase --include="$bench_packages" "$1" "$root" "$(mirror debian)" \
            > "$cache/$1.log" 2>&1 || { tail -n 20 "$cache/$1.log" >&2; return 1; }
        {
            echo "deb $(mirror debian) $1 main"
            echo "deb $(mirror debian) $1-updates main"
            echo "deb $(mirror debian-security) $1-security main"
        } > "$root/etc/apt/sources.list"
        # How this machine reaches its archives.
        apt-config dump | grep -E '^Acquire::(http|https|Check-|Retries)' \
            > "$root/etc/apt/apt.conf.d/90as-here" || true
        echo 'APT::Keep-Downloaded-Packages "true";' > "$root/etc/apt/apt.conf.d/91keep"
        touch "$root.made"
    fi
    mkdir -p "$cache/archives-$1/partial" "$cache/lists-$1/partial"
}

overlay() { # RELEASE NAME: a fresh system in $work/NAME
    local place=$work/$2
    mkdir -p "$place" "$work/.$2/upper" "$work/.$2/work"
    mount -t overlay overlay -o \
        "lowerdir=$cache/$1,upperdir=$work/.$2/upper,workdir=$work/.$2/work" "$place"
    mount --bind "$cache/archives-$1" "$place/var/cache/apt/archives"
    mount --bind "$cache/lists-$1" "$place/var/lib/apt/lists"
    mount -t tmpfs -o mode=755 dev "$place/dev"
    local device
    for device in null zero full random urandom tty; do
        touch "$place/dev/$device"
        mount --bind "/dev/$device" "$place/dev/$device"
    done
    mkdir "$place/dev/pts" "$place/dev/shm"
    mount -t devpts devpts "$place/dev/pts" -o newinstance,ptmxmode=0666
    mount -t tmpfs shm "$place/dev/shm"
    ln -s pts/ptmx "$place/dev/ptmx"
    cp /etc/resolv.conf "$place/etc/resolv.conf"
}

environment=(env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
    LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive PYTHONDONTWRITEBYTECODE=1)

# A first process that collects its orphans, with loopback where there is no other network.
first='mount -t proc proc "$0/proc"; [ "$net" = own ] && ip link set lo up; chroot "$0" "$@"; exit $?'

inside() { # NAME COMMAND…: with this machine's network
    net= "${environment[@]}" unshare --mount --pid --fork --kill-child \
        bash -c "$first" "$work/$1" "${@:2}"
}

inside_alone() { # NAME COMMAND…: with loopback only
    "${environment[@]}" net=own unshare --mount --pid --net --fork --kill-child \
        bash -c "$first" "$work/$1" "${@:2}"
}

boot() { # NAME: systemd as PID 1, loopback only; sets $booted to its PID
    local place=$work/$1
    unshare --mount --pid --uts --ipc --net --cgroup --fork --kill-child bash -c '
        ip link set lo up
        mount -t proc proc "$0/proc"
        # Read-only, so that udev leaves the devices of this machine alone.
        mount -t sysfs -o ro sys "$0/sys"
        mount -t cgroup2 cgroup2 "$0/sys/fs/cgroup"
        mount -t tmpfs -o mode=755 run "$0/run"
        exec env -i container=edged PATH=/usr/sbin:/usr/bin chroot "$0" /usr/lib/systemd/systemd --system \
            --unit=multi-user.target --log-target=journal --show-status=false
    ' "$place" < /dev/null > "$work/$1.boot.log" 2>&1 &
    unshared=$!
    local began=$SECONDS
    until booted=$(pgrep -P "$unshared" 2> /dev/null) &&
        [[ $(at "$1" systemctl is-system-running 2> /dev/null) =~ running|degraded ]]; do
        if [ $((SECONDS - began)) -gt 60 ]; then
            echo "systemd does not start in a container here:" >&2
            cat "$work/$1.boot.log" >&2
            return 1
        fi
        sleep 0.2
    done
}

at() { # NAME COMMAND…: in the booted system
    "${environment[@]}" nsenter --target "$booted" --mount --pid --net --uts --ipc --cgroup \
        chroot "$work/$1" "${@:2}"
}

shut_down() { # NAME
    kill -KILL "$unshared" 2> /dev/null || true
    wait "$unshared" 2> /dev/null || true
}
