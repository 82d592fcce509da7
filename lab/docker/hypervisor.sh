#!/bin/bash
# Open vSwitch with the userspace datapath, ovn-controller, the agent, which
# plugs guests, and lab-node, which lets them talk.
set -euo pipefail
. /usr/local/lib/ovn-lab/common.sh
mkdir -p /run/ovn /run/openvswitch /run/netns
export LAB_PORT=eth0

# Guests' namespaces have kernel parameters of their own, and Docker leaves
# /proc/sys read-only. What is writable now is /proc/sys/net, and there each
# namespace sees its own.
mkdir -p /run/proc
mount -t proc proc /run/proc
mount --bind /run/proc/sys/net /proc/sys/net
umount /run/proc

ovsdb-tool create /run/openvswitch/conf.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server --unixctl=/run/openvswitch/ovsdb.ctl --remote=punix:/run/openvswitch/db.sock -vconsole:info -vfile:off /run/openvswitch/conf.db &
ovsdb-client --timeout=30 wait unix:/run/openvswitch/db.sock Open_vSwitch connected
ovs-vsctl --no-wait init -- set Open_vSwitch . \
	external_ids:system-id="$LAB_CHASSIS" external_ids:hostname="$LAB_CHASSIS" \
	external_ids:ovn-remote="\"$(remotes 6642)\"" \
	external_ids:ovn-encap-type="$LAB_ENCAP" external_ids:ovn-encap-ip="$LAB_ADDRESS" \
	external_ids:ovn-bridge-datapath-type=netdev
# Without --disable-system it would look for the kernel's datapath.
ovs-vswitchd --disable-system --pidfile -vconsole:info -vfile:off unix:/run/openvswitch/db.sock &

# The underlay's address moves to a bridge of the same datapath: that is where
# it looks for the way of tunnelled packets.
address=$(ip -o -4 address show dev eth0 | awk '{print $4}')
gateway=$(ip -4 route show default | awk '{print $3; exit}')
checksums eth0
ovs-vsctl --timeout=30 add-br br-phy -- set Bridge br-phy datapath_type=netdev -- add-port br-phy eth0
checksums br-phy
ip address flush dev eth0
ip address add "$address" dev br-phy
ip link set br-phy up
[ -z "$gateway" ] || ip route add default via "$gateway"

ovn-controller --pidfile -vconsole:info -vfile:off unix:/run/openvswitch/db.sock &
# Its metrics are for healthy.sh.
ovn-vpc agent --metrics-listen 127.0.0.1:9476 &
lab-node serve &
supervise
