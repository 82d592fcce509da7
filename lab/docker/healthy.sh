#!/bin/bash
# Whether the hypervisor hears of its guests: ovn-controller and the agent have
# the southbound database, and lab-node takes calls.
set -euo pipefail
[ "$(ovn-appctl -t ovn-controller connection-status)" = connected ]
ovs-vsctl br-exists br-int
test -S /run/lab-node.sock
exec 3<>/dev/tcp/127.0.0.1/9476
printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
grep -qx 'ovn_vpc_agent_connected 1' <&3
