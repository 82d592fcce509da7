# For the entrypoints: processes in the background, of which none may end.

# supervise waits for the end of the first process, or for the container's, and
# then ends the rest.
supervise() {
	status=0
	wait -n || status=$?
	stop
	exit "$status"
}

stop() {
	trap - EXIT TERM INT
	# Of those that have ended none is left.
	jobs -p | xargs -r kill 2>/dev/null || true
	wait || true
}
trap 'stop; exit 0' TERM INT
trap stop EXIT

# The userspace datapath takes packets from the kernel without the checksum
# that offload leaves to a card, and every TCP connection would hang.
checksums() { ethtool -K "$1" tx off >/dev/null; }

# remotes lists the servers of a database, by its TCP port.
remotes() {
	local list="" address
	for address in $LAB_SERVERS; do list="$list,tcp:$address:$1"; done
	echo "${list#,}"
}

# A cluster's other servers run in the profile of that name alone.
case ",${LAB_PROFILES:-}," in
*,cluster,*) ;;
*) LAB_SERVERS=${LAB_SERVERS%% *} ;;
esac
