# Debian systems to try the package in: a cached debootstrap, an overlay over it, and systemd as its
# PID 1. Sourced by deb_test, which runs as root in a mount namespace of its own; what is mounted
# goes with that. Mirrors are those of this machine's apt, read when they are needed.

cache=${DEB_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/edged-deb-test}
group=edged-deb-test
address=192.168.77.2 # of the booted system, which no other machine sees
bench_packages=systemd-sysv,systemd,udev,dbus,curl,ca-certificates

mirror() { # ENDING: the first archive of this machine's apt whose address ends so
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep "/$1/\?$" | sort -u | head -n 1
}

lacks() { # SENTENCE…: collected, so that all of it is said at once
    echo "deb_test: $*" >&2
    is_lacking=yes
}

check_machine() { # RELEASE…: ends with a sentence for each thing that this machine lacks
    local tool release place is_lacking=
    for tool in debootstrap lintian dpkg-buildpackage dh unshare setpriv nsenter ip systemd-analyze man pgrep; do
        command -v "$tool" > /dev/null || lacks "there is no $tool." \
            "On Debian: sudo apt install debootstrap lintian debhelper dpkg-dev iproute2 systemd man-db procps"
    done
    [ "$(id -u)" = 0 ] || lacks "it makes systems to try the package in: run it as root."
    for release; do
        [ ! -d /usr/share/debootstrap ] || [ -e "/usr/share/debootstrap/scripts/$release" ] ||
            lacks "this machine's debootstrap does not know $release."
    done
    [ -n "$(mirror debian)" ] ||
        lacks "this machine's apt has no archive of Debian (an address that ends in /debian)."
    [ -z "$is_lacking" ] || exit 1
    if ! unshare --mount --pid --net --uts --ipc --cgroup --fork true; then
        lacks "root may make no namespaces here (a container? It needs CAP_SYS_ADMIN and CAP_NET_ADMIN)."
        exit 1
    fi
    mkdir -p "$cache"
    place=$(mktemp -d "$cache/try.XXXXXX")
    mkdir "$place"/{lower,upper,work,here}
    unshare --mount mount -t overlay overlay "$place/here" -o \
        "lowerdir=$place/lower,upperdir=$place/upper,workdir=$place/work" ||
        lacks "no overlayfs can be mounted over $cache (does the kernel have it? May root mount here?" \
            "Is it an overlay itself? DEB_TEST_CACHE names another directory)."
    in_cgroups "$place/here" sh -c 'mkdir "$0" && rmdir "$0"' "$place/here/$group.try.$$" ||
        lacks "no group of processes can be made in cgroup2: systemd cannot be booted here."
    rm -rf --one-file-system "$place"
    [ -z "$is_lacking" ] || exit 1
}

in_cgroups() { # PLACE COMMAND…: with the groups below this program's own one mounted at PLACE
    unshare --mount --cgroup sh -c 'mount -t cgroup2 cgroup2 "$0" && exec "$@"' "$@"
}

remove_cgroups() { # what the booted systems have made; their processes are gone
    local place
    place=$(mktemp -d)
    in_cgroups "$place" find "$place/$(own_group)" -depth -type d -exec rmdir {} + 2> /dev/null || true
    rmdir "$place"
}

# One for each run: another one may be at work with another cache.
own_group() { echo "$group.$(basename "$work")"; }

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

boot() { # NAME: systemd as PID 1, no network but its own address; sets $booted to its PID
    local place=$work/$1 own
    own=$work/cgroup/$(own_group)/$1
    mkdir -p "$work/cgroup"
    mountpoint -q "$work/cgroup" || mount -t cgroup2 cgroup2 "$work/cgroup"
    mkdir -p "$own"
    (
        # A group of its own, so that none of its groups stays among this machine's.
        echo "$BASHPID" > "$own/cgroup.procs"
        address=$address exec unshare --mount --pid --uts --ipc --net --cgroup --fork --kill-child bash -c '
            ip link set lo up
            ip address add "$address/32" dev lo
            mount -t proc proc "$0/proc"
            # Read-only, so that udev leaves the devices of this machine alone.
            mount -t sysfs -o ro sys "$0/sys"
            mount -t cgroup2 cgroup2 "$0/sys/fs/cgroup"
            mount -t tmpfs -o mode=755 run "$0/run"
            exec env -i container=edged PATH=/usr/sbin:/usr/bin chroot "$0" /usr/lib/systemd/systemd \
                --system --unit=multi-user.target --log-target=journal --show-status=false
        ' "$place"
    ) < /dev/null > "$work/$1.boot.log" 2>&1 &
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
