#!/bin/bash
# Installs the Debian packages that the project needs and that are missing.
#
#   hack/setup.sh          OVN, Open vSwitch and network tools
#   hack/setup.sh compat   also unpacks Debian trixie and sid, with their OVN,
#                          into ${OVN_VPC_CACHE:-$HOME/.cache/ovn-vpc}
#   hack/setup.sh engine   a Docker engine and Compose, unless one answers
#
# A system's own OVN and Open vSwitch are left alone: no service is started or
# stopped, OVN's and Open vSwitch's packages are never upgraded, and what newly
# installed ones would start with the machine (units, and init scripts of OVN and
# Open vSwitch) is disabled, but for what was set up under that name before.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1

packages=(ovn-central ovn-host openvswitch-switch iproute2 iputils-ping tcpdump ethtool curl)
suites=(trixie sid)
included=ovn-central,ovn-host,openvswitch-switch,iproute2,iputils-ping,ethtool
cache=${OVN_VPC_CACHE:-$HOME/.cache/ovn-vpc}
extra=${1:-}
case "$*" in
'' | compat | engine) ;;
*) echo "usage: $0 [compat|engine]" >&2; exit 1 ;;
esac
policy=/usr/sbin/policy-rc.d

command -v dpkg-query >/dev/null || {
	echo "setup: this is not Debian (no dpkg-query): install OVN, Open vSwitch, iproute2, ping, tcpdump, ethtool and curl by your system's own means" >&2
	exit 1
}

# complete reports whether the suite $1 is unpacked, with the packages that
# are wanted today.
complete() { [ "$(cat "$cache/$1/.complete" 2>/dev/null)" = "$included" ]; }

# installed lists the packages that are there.
installed() { dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' | awk '$1 ~ /^.i/ {print $2}' | sort -u; }

# forbid keeps packages from starting and stopping services: invoke-rc.d(8)
# and deb-systemd-invoke(1p) ask this program.
ours='# ovn-vpc set-up: no service is started or stopped meanwhile'
forbid() {
	restore
	if [ -e "$policy" ]; then
		mv "$policy" "$policy.ovn-vpc"
	fi
	printf '#!/bin/sh\n%s\nexit 101\n' "$ours" >"$policy"
	chmod 755 "$policy"
}
restore() {
	if [ -e "$policy.ovn-vpc" ]; then
		mv -f "$policy.ovn-vpc" "$policy"
	elif [ -e "$policy" ] && grep -qF "$ours" "$policy"; then
		rm -f "$policy"
	fi
}

# What a killed set-up left behind is undone, whether or not anything is
# missing. One that runs, which holds the lock, still needs it.
if [ "$(id -u)" = 0 ]; then
	mkdir -p /run/lock
	exec 9>/run/lock/ovn-vpc-setup
	if flock -n 9; then restore; fi
fi

wanting=()
case $extra in
compat)
	for suite in "${suites[@]}"; do complete "$suite" || wanting+=("$suite"); done
	[ ${#wanting[@]} = 0 ] || packages+=(debootstrap debian-archive-keyring)
	;;
engine)
	# Only what is missing: nobody's engine is replaced. The hypervisors are in
	# containers, so this machine needs no OVN. debootstrap makes the base image
	# where none can be pulled.
	packages=()
	if ! docker info >/dev/null 2>&1; then
		packages=(debootstrap debian-archive-keyring)
		command -v dockerd >/dev/null || packages+=(docker.io)
	fi
	command -v docker >/dev/null || packages+=(docker.io)
	docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null || packages+=(docker-compose)
	[ ${#packages[@]} != 0 ] || exit 0
	;;
esac
mapfile -t missing < <(printf '%s\n' "${packages[@]}" | sort | comm -23 - <(installed))
[ ${#missing[@]} != 0 ] || [ ${#wanting[@]} != 0 ] || exit 0

if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null || { echo "setup: missing: ${missing[*]} ${wanting[*]}: run hack/setup.sh $extra as root" >&2; exit 1; }
	exec sudo env OVN_VPC_CACHE="$cache" "$0" "$@"
fi
flock 9

# apt_install plans the same command that it runs then, and refuses what would
# change an Open vSwitch or OVN that is there.
apt_install() {
	local command=(apt-get install --no-install-recommends --no-upgrade --no-remove -y "$@") plan changed
	if ! plan=$("${command[@]}" --simulate 2>&1); then
		apt-get update -q
		plan=$("${command[@]}" --simulate 2>&1) || { echo "setup: $plan" >&2; return 1; }
	fi
	changed=$(awk '$1 == "Inst" && $3 ~ /^\[/ && $2 ~ /^(ovn|openvswitch|python3-openvswitch)/ {print $2}' <<<"$plan")
	if [ -n "$changed" ]; then
		echo "setup: to install $* would upgrade the system's own" $changed "and so its services: do that yourself first" >&2
		return 1
	fi
	# The lists may name files that the mirror no longer has.
	"${command[@]}" -q || {
		apt-get update -q
		"${command[@]}" -q
	}
}

# configured lists the units that are enabled or have a file of the machine's
# own, and the init scripts that it starts, as units.
configured() {
	{
		find /etc/systemd/system \( -name '*.service' -o -name '*.socket' -o -name '*.timer' \) -printf '%f\n' || true
		find /etc/rc?.d -name 'S??*' -printf '%f.service\n' | cut -c 4- || true
	} 2>/dev/null | sort -u
}

# disable keeps the services of the packages that were not in the list $1 from
# starting with the machine, but for the units of the list $2: in the files,
# whether or not systemd runs.
disable() {
	local new units scripts script
	mapfile -t new < <(comm -13 - <(installed) <<<"$1")
	[ ${#new[@]} != 0 ] || return 0
	mapfile -t units < <(dpkg-query -L "${new[@]}" | sed -nE 's#^(/usr)?/lib/systemd/system/([^@/]+\.(service|socket|timer))$#\2#p' | sort -u | comm -23 - <(echo "$2"))
	mapfile -t scripts < <(dpkg-query -L "${new[@]}" | sed -nE 's#^/etc/init\.d/((ovn|openvswitch)[^/]*)$#\1.service#p' | sort -u | comm -23 - <(echo "$2"))
	if command -v systemctl >/dev/null && [ ${#units[@]} != 0 ]; then
		systemctl --root=/ --quiet disable "${units[@]}"
	fi
	for script in "${scripts[@]}"; do update-rc.d "${script%.service}" disable; done
}

if [ ${#missing[@]} != 0 ]; then
	echo "setup: installing ${missing[*]}"
	before=$(installed)
	enabled=$(configured)
	# Also after a failure or a signal in the middle.
	trap 'restore; disable "$before" "$enabled"' EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	forbid
	apt_install "${missing[@]}"
	restore
	disable "$before" "$enabled"
	trap - EXIT
fi

# mirrors lists the places to get Debian from: debootstrap's own default (an
# empty line), then what apt is configured with.
mirrors() {
	echo
	apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Origin: Debian' 'Label: Debian' | sort -u
}

# unpack makes the folder of the suite $1; the marker comes last.
unpack() {
	local suite=$1 root=$cache/$1 mirror
	while read -r mirror; do
		rm -rf --one-file-system "$root"
		mkdir -p "$root"
		# Unquoted: the default is no argument.
		if debootstrap --variant=minbase --include="$included" "$suite" "$root" $mirror </dev/null; then
			rm -rf "$root"/var/cache/apt/archives/*.deb
			echo "$included" >"$root/.complete"
			return
		fi
	done < <(mirrors)
	echo "setup: can't unpack Debian $suite into $root: see $root/debootstrap/debootstrap.log" >&2
	return 1
}

for suite in "${wanting[@]}"; do
	echo "setup: unpacking Debian $suite with its OVN (some minutes, once)"
	unpack "$suite"
done
