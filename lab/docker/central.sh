#!/bin/bash
# The northbound and the southbound database, and ovn-northd. Each database is
# a cluster (ovsdb(7), RAFT) that its first server founds and the others join.
set -euo pipefail
. /usr/local/lib/ovn-lab/common.sh
first=${LAB_SERVERS%% *}
mkdir -p /run/ovn /var/lib/ovn
checksums eth0

# database runs a server: its file's name, database, schema, TCP port, and port of the
# cluster.
database() {
	local file=/var/lib/ovn/$1.db local_address=tcp:$LAB_ADDRESS:$5
	if [ ! -e "$file" ]; then
		if [ "$LAB_ADDRESS" = "$first" ]; then
			ovsdb-tool create-cluster "$file" "$3" "$local_address"
		else
			ovsdb-tool join-cluster "$file" "$2" "$local_address" "tcp:$first:$5"
		fi
	fi
	ovsdb-server --unixctl="/run/ovn/$1.ctl" --remote="punix:/run/ovn/$1.sock" --remote="ptcp:$4:0.0.0.0" -vconsole:info -vfile:off "$file" &
	ovsdb-client --timeout=60 wait "unix:/run/ovn/$1.sock" "$2" connected
	# The volume may be older than the image.
	if [ "$LAB_ADDRESS" = "$first" ] && [ "$(ovsdb-client needs-conversion "unix:/run/ovn/$1.sock" "$3")" = yes ]; then
		ovsdb-client -t 60 convert "unix:/run/ovn/$1.sock" "$3"
	fi
}

database ovnnb_db OVN_Northbound /usr/share/ovn/ovn-nb.ovsschema 6641 6643
database ovnsb_db OVN_Southbound /usr/share/ovn/ovn-sb.ovsschema 6642 6644
ovn-nbctl --db="$(remotes 6641)" init
ovn-sbctl --db="$(remotes 6642)" init
# One of several is active, by a lock in the southbound database.
ovn-northd --unixctl=/run/ovn/ovn-northd.ctl --ovnnb-db="$(remotes 6641)" --ovnsb-db="$(remotes 6642)" -vconsole:info -vfile:off &
supervise
