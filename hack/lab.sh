#!/bin/bash
# The lab of docker-compose.yml.
#
#   hack/lab.sh up      build the image, start the containers, wait for guests
#   hack/lab.sh demo    play the scenes
#   hack/lab.sh test    restart and kill a hypervisor, then play them and check what they come to
#   hack/lab.sh down    stop and remove the containers; the network stays in volumes
#   hack/lab.sh purge   down, and remove volumes, image, and the engine of our own
#   hack/lab.sh env     print what makes `docker` reach the lab's engine
#
# Docker's engine is the one that answers. Where none does, and root asks, a
# dockerd of our own is started, with all its files in ${OVN_VPC_ENGINE:-
# OVN_VPC_CACHE/engine}; down ends it.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

cache=${OVN_VPC_CACHE:-$HOME/.cache/ovn-vpc}
engine=${OVN_VPC_ENGINE:-$cache/engine}
suite=${LAB_DEBIAN:-bookworm}
base=debian:$suite-slim
label=org.ovn-vpc.lab

answers() { docker info >/dev/null 2>&1; }

# mine prints the process id of our own dockerd, if it runs.
mine() {
	local pid
	pid=$(cat "$engine/docker.pid" 2>/dev/null) || return 1
	tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -xF -- "--pidfile=$engine/docker.pid" >/dev/null && echo "$pid"
}

# use chooses the engine: ours where it runs.
use() {
	if mine >/dev/null; then
		export DOCKER_HOST=unix://$engine/docker.sock
		# Its networks reach nothing outside: no rule for it is in the machine's
		# packet filter. The machine's own network is for building.
		export LAB_BUILD_NETWORK=host DOCKER_BUILDKIT=0 COMPOSE_DOCKER_CLI_BUILD=0
	fi
}

# start_engine starts our own dockerd. It leaves the machine's packet filter
# and forwarding alone, and a containerd of the machine too.
start_engine() {
	[ "$(id -u)" = 0 ] || { echo "lab: no Docker engine answers; start one, or be root: then the lab starts its own" >&2; return 1; }
	mkdir -p "$engine"
	rm -f "$engine/docker.pid"
	# setsid: Ctrl-C at the terminal is not meant for it.
	setsid dockerd --data-root="$engine/data" --exec-root="$engine/exec" --pidfile="$engine/docker.pid" --host="unix://$engine/docker.sock" \
		--containerd-namespace=ovn-vpc --containerd-plugins-namespace=ovn-vpc-plugins \
		--bridge=none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false </dev/null >"$engine/dockerd.log" 2>&1 &
	export DOCKER_HOST=unix://$engine/docker.sock
	for _ in $(seq 300); do
		if answers; then
			use
			return
		fi
		kill -0 $! 2>/dev/null || break
		sleep 0.1
	done
	echo "lab: dockerd does not start: see $engine/dockerd.log" >&2
	return 1
}

# end_engine ends our own dockerd, by its process id, and undoes the mounts that
# it leaves: a network namespace's name.
end_engine() {
	local pid
	if pid=$(mine); then
		kill "$pid"
		for _ in $(seq 300); do
			[ -e "/proc/$pid" ] || break
			sleep 0.1
		done
		[ ! -e "/proc/$pid" ] || { echo "lab: dockerd ($pid) does not end" >&2; return 1; }
	fi
	[ ! -e /proc/mounts ] || awk -v folder="$engine/" 'index($2, folder) == 1 {print $2}' /proc/mounts | sort -r | xargs -r umount
}

compose() {
	if docker compose version >/dev/null 2>&1; then docker compose "$@"; else docker-compose "$@"; fi
}

# base_image pulls the base image, or makes it where no registry can be
# reached.
base_image() {
	docker image inspect "$base" >/dev/null 2>&1 || docker pull -q "$base" || {
		local archive=$cache/$suite-base.tar.gz folder
		if [ ! -e "$archive" ]; then
			echo "lab: $base can't be pulled: making it by debootstrap (two minutes, once)"
			folder=$(mktemp -d)
			debootstrap --variant=minbase "$suite" "$folder/root" >"$folder/log" || { tail "$folder/log" >&2; return 1; }
			mkdir -p "$cache"
			tar -C "$folder/root" -c . | gzip -1 >"$archive.$$"
			mv "$archive.$$" "$archive"
			rm -rf --one-file-system "$folder"
		fi
		docker import --change "LABEL $label=base" "$archive" "$base" >/dev/null
	}
}

# programs builds ovn-vpc and lab-node for the engine's architecture, which
# need not be this machine's.
programs() {
	local arch
	arch=$(docker version --format '{{.Server.Arch}}')
	mkdir -p "bin/linux-$arch"
	CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath -o "bin/linux-$arch/" ./cmd/ovn-vpc ./lab/docker/lab-node
	export LAB_BUILDER=$base
}

# healthy waits until all containers are.
healthy() {
	local states
	for _ in $(seq 240); do
		states=$(compose ps -q | xargs docker inspect --format '{{.Name}} {{.State.Status}} {{.State.Health.Status}}')
		grep -qv ' running healthy$' <<<"$states" || return 0
		! grep -q ' exited ' <<<"$states" || break
		sleep 0.5
	done
	echo "lab: not healthy:"$'\n'"$states" >&2
	compose logs --tail=20 >&2
	return 1
}

up() {
	answers || start_engine
	base_image
	programs
	compose build central
	compose up -d
	healthy
	go run ./hack/demo -compose -guests
}

down() {
	! answers || compose --profile cluster down "$@"
	[ "$*" != "" ] || end_engine
}

# purge leaves nothing of the lab behind. Of a base image only one that was
# made here goes.
purge() {
	if answers; then
		down --volumes
		docker image ls -q ovn-vpc-lab | sort -u | xargs -r docker image rm -f >/dev/null
		docker image prune -f --filter "label=$label" >/dev/null
		docker image ls -q --filter "label=$label=base" debian | sort -u | xargs -r docker image rm >/dev/null
	fi
	end_engine
	rm -rf --one-file-system "$engine"
}

use
case ${1:-} in
up) up ;;
demo) go run ./hack/demo -compose ;;
test) go test -count=1 -json ./test/scene -compose | bin/testsum ;;
down) down ;;
purge) purge ;;
env) [ -z "${DOCKER_HOST:-}" ] || echo "export DOCKER_HOST=$DOCKER_HOST" ;;
*) sed -n 's/^#   //p' "$0" >&2; exit 1 ;;
esac
